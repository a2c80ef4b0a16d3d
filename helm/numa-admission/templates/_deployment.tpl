{{- /* The Deployment of one role. Takes root and role (rules, ledger). */ -}}
{{- define "numa-admission.deployment" -}}
{{- $root := .root }}
{{- $role := .role }}
{{- $values := $root.Values }}
{{- $chosen := index $values $role }}
{{- $fullname := include "numa-admission.fullname" $root }}
{{- /* The rules' pods do the rotation. To the ledger's pods the kubelet brings the pair: their token, beside a server that
       reads what strangers send, must not read the Secret, which holds the key that signs. */}}
{{- $duty := ternary (include "numa-admission.keeper" $root) "" (eq $role "rules") }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $fullname }}-{{ $role }}
  namespace: {{ $root.Release.Namespace | quote }}
  labels:
    {{- include "numa-admission.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ $role }}
spec:
  replicas: {{ $chosen.replicas }}
  revisionHistoryLimit: {{ $values.revisionHistoryLimit }}
  strategy:
    type: RollingUpdate
    # A new pod serves before an old one goes; with host ports there is no room for both on a node.
    rollingUpdate: {{ ternary "{maxSurge: 0, maxUnavailable: 1}" "{maxSurge: 1, maxUnavailable: 0}" $chosen.hostNetwork }}
  selector:
    matchLabels:
      {{- include "numa-admission.selector" $root | nindent 6 }}
      app.kubernetes.io/component: {{ $role }}
  template:
    metadata:
      labels:
        {{- include "numa-admission.selector" $root | nindent 8 }}
        app.kubernetes.io/component: {{ $role }}
        {{- with $chosen.podLabels }}{{- toYaml . | nindent 8 }}{{- end }}
      annotations:
        # Other settings are taken over by the running server; a change of these means another pod.
        checksum/restart-settings: {{ include "numa-admission.restartSettings" . | sha256sum }}
        kubectl.kubernetes.io/default-container: server
        {{- with $chosen.podAnnotations }}{{- toYaml . | nindent 8 }}{{- end }}
    spec:
      serviceAccountName: {{ $fullname }}-{{ $role }}
      # A token is given to the containers that need one, below.
      automountServiceAccountToken: false
      enableServiceLinks: false
      terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
      {{- with $values.image.pullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $chosen.priorityClassName }}
      priorityClassName: {{ . | quote }}
      {{- end }}
      {{- if $chosen.hostNetwork }}
      hostNetwork: true
      dnsPolicy: ClusterFirstWithHostNet
      {{- end }}
      securityContext: {{- toYaml $values.podSecurityContext | nindent 8 }}
      {{- with $chosen.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $chosen.tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $chosen.affinity }}
      affinity: {{- toYaml . | nindent 8 }}
      {{- end }}
      topologySpreadConstraints:
        {{- if $chosen.topologySpreadConstraints }}
        {{- toYaml $chosen.topologySpreadConstraints | nindent 8 }}
        {{- else }}
        {{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
        - maxSkew: 1
          topologyKey: {{ $key }}
          # Wanted, not demanded: a cluster of one node must be able to start it.
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "numa-admission.selector" $root | nindent 14 }}
              app.kubernetes.io/component: {{ $role }}
        {{- end }}
        {{- end }}
      {{- if eq $duty "keep" }}
      initContainers:
        # The server does not start without a certificate.
        - name: first-certificate
          {{- include "numa-admission.keeperContainer" (dict "root" $root "duty" $duty "once" true) | nindent 10 }}
      {{- end }}
      containers:
        - name: server
          image: {{ include "numa-admission.image" $root | quote }}
          imagePullPolicy: {{ $values.image.pullPolicy }}
          command: [numa-admission, serve]
          args:
            - --settings=/etc/numa-admission/{{ $role }}.yaml
            {{- if and (eq $role "ledger") $values.ledger.leaderElection }}
            # Its own address: the leader writes it into the EndpointSlice.
            - --bind={{ ternary "[$(POD_IP)]" "$(POD_IP)" (hasPrefix "[" $values.listenAddress) }}:{{ $chosen.port }}
            {{- else }}
            - --bind={{ $values.listenAddress }}:{{ $chosen.port }}
            {{- end }}
            - --probe-bind={{ $values.listenAddress }}:{{ $chosen.probePort }}
            - --tls-cert=/run/numa-admission/tls/tls.crt
            - --tls-key=/run/numa-admission/tls/tls.key
            {{- if $values.clientCA.secretName }}
            - --client-ca=/run/numa-admission/client/{{ $values.clientCA.key }}
            {{- end }}
            {{- range $chosen.extraArgs }}
            - {{ . | quote }}
            {{- end }}
          {{- if or $chosen.extraEnv (eq $role "ledger") }}
          env:
            {{- if eq $role "ledger" }}
            - name: POD_NAME
              valueFrom: {fieldRef: {fieldPath: metadata.name}}
            - name: POD_NAMESPACE
              valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
            - name: POD_IP
              valueFrom: {fieldRef: {fieldPath: status.podIP}}
            {{- end }}
            {{- with $chosen.extraEnv }}{{- toYaml . | nindent 12 }}{{- end }}
          {{- end }}
          ports:
            - {name: admission, containerPort: {{ $chosen.port }}, protocol: TCP}
            - {name: probes, containerPort: {{ $chosen.probePort }}, protocol: TCP}
          startupProbe:
            httpGet: {path: /livez, port: probes}
            periodSeconds: 1
            failureThreshold: 60
          readinessProbe:
            httpGet: {path: /readyz, port: probes}
            periodSeconds: 2
            failureThreshold: 2
          livenessProbe:
            httpGet: {path: /livez, port: probes}
            periodSeconds: 10
            failureThreshold: 6
          {{- if $values.preStopSeconds }}
          lifecycle:
            preStop:
              exec: {command: [sleep, {{ $values.preStopSeconds | quote }}]}
          {{- end }}
          resources: {{- toYaml $chosen.resources | nindent 12 }}
          securityContext: {{- include "numa-admission.securityContext" $root | nindent 12 }}
          volumeMounts:
            - {name: settings, mountPath: /etc/numa-admission, readOnly: true}
            - {name: tls, mountPath: /run/numa-admission/tls, readOnly: true}
            {{- if $values.clientCA.secretName }}
            - {name: client-ca, mountPath: /run/numa-admission/client, readOnly: true}
            {{- end }}
            - {name: tmp, mountPath: /tmp}
            {{- if eq $role "ledger" }}
            - {name: token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
            {{- end }}
        {{- if $duty }}
        - name: certificates
          {{- include "numa-admission.keeperContainer" (dict "root" $root "duty" $duty "once" false) | nindent 10 }}
        {{- end }}
      volumes:
        - name: settings
          configMap: {name: {{ $fullname }}-settings}
        - name: tls
          {{- if eq $duty "keep" }}
          emptyDir: {medium: Memory, sizeLimit: 4Mi}
          {{- else }}
          secret:
            secretName: {{ include "numa-admission.secret" $root | quote }}
            # Nothing else of the Secret has any business on a server. Until it holds these, the pod waits for them.
            items:
              - {key: tls.crt, path: tls.crt}
              - {key: tls.key, path: tls.key}
          {{- end }}
        {{- if $values.clientCA.secretName }}
        - name: client-ca
          secret:
            secretName: {{ $values.clientCA.secretName | quote }}
            items: [{key: {{ $values.clientCA.key | quote }}, path: {{ $values.clientCA.key | quote }}}]
        {{- end }}
        - name: tmp
          emptyDir: {medium: Memory, sizeLimit: 16Mi}
        {{- if or $duty (eq $role "ledger") }}
        - name: token
          projected:
            defaultMode: 0440
            sources:
              - serviceAccountToken: {path: token, expirationSeconds: 3607}
              - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
              - downwardAPI: {items: [{path: namespace, fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}}]}
        {{- end }}
{{- end }}

{{- /* A container that keeps certificates. Takes root, duty (keep, trust) and once. */ -}}
{{- define "numa-admission.keeperContainer" -}}
{{- $values := .root.Values }}
{{- $fullname := include "numa-admission.fullname" .root -}}
image: {{ include "numa-admission.image" .root | quote }}
imagePullPolicy: {{ $values.image.pullPolicy }}
command: [python, -m, webhook.cli.certs, keep]
args:
  - --duty={{ .duty }}
  - --secret={{ .root.Release.Namespace }}/{{ include "numa-admission.secret" .root }}
  {{- if eq .duty "keep" }}
  - --directory=/run/numa-admission/tls
  {{- end }}
  - --configurations={{ $fullname }}
  - --propagation={{ $values.certificates.propagationSeconds }}
  {{- if eq .duty "keep" }}
  - --service={{ $fullname }}-rules
  {{- if $values.ledger.enabled }}
  - --service={{ $fullname }}-ledger
  {{- end }}
  {{- $hosts := include "numa-admission.hosts" .root | fromJson }}
  {{- range $hosts.dns }}
  - {{ printf "--dns=%s" . | quote }}
  {{- end }}
  {{- range $hosts.ip }}
  - {{ printf "--ip=%s" . | quote }}
  {{- end }}
  - --days={{ $values.certificates.days }}
  - --authority-days={{ $values.certificates.authorityDays }}
  {{- end }}
  {{- if .once }}
  - --once
  {{- end }}
resources: {{- toYaml $values.certificates.resources | nindent 2 }}
securityContext: {{- include "numa-admission.securityContext" .root | nindent 2 }}
volumeMounts:
  {{- if eq .duty "keep" }}
  - {name: tls, mountPath: /run/numa-admission/tls}
  {{- end }}
  - {name: token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
  - {name: tmp, mountPath: /tmp}
{{- end }}
