{{- define "numa-admission.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 55 | trimAll "-" }}
{{- end }}

{{- /* What the objects are named after. Helm allows dots and a leading digit in a release's name; a Service's name has neither. */ -}}
{{- define "numa-admission.fullname" -}}
{{- $release := replace "." "-" .Release.Name }}
{{- $name := include "numa-admission.name" . }}
{{- $full := .Values.fullnameOverride | default (ternary $release (printf "%s-%s" $release $name) (contains $name $release)) }}
{{- $full = $full | trunc 55 | trimAll "-" }}
{{- if not (regexMatch "^[a-z][-a-z0-9]*$" $full) }}
{{- fail (printf "fullnameOverride: the Services' names would begin with %q, and must begin with a letter; give a name that does." $full) }}
{{- end }}
{{- $full }}
{{- end }}

{{- define "numa-admission.selector" -}}
app.kubernetes.io/name: {{ include "numa-admission.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "numa-admission.labels" -}}
{{ include "numa-admission.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "numa-admission.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- end }}
{{- end }}

{{- /* The Secret that holds the serving certificate. */ -}}
{{- define "numa-admission.secret" -}}
{{- if eq .Values.certificates.mode "existingSecret" }}
{{- required "certificates.existingSecret.name: mode existingSecret needs the Secret's name." .Values.certificates.existingSecret.name }}
{{- else }}
{{- include "numa-admission.fullname" . }}-tls
{{- end }}
{{- end }}

{{- /* "keep": our authority; "trust": only caBundle is ours to keep; "": nothing is. */ -}}
{{- define "numa-admission.keeper" -}}
{{- if eq .Values.certificates.mode "self" }}keep
{{- else if and (eq .Values.certificates.mode "existingSecret") (not .Values.certificates.existingSecret.caBundle) }}trust
{{- end }}
{{- end }}

{{- /* matchConditions: beta and on by default from 1.28; an API server of before drops the field without a word. */ -}}
{{- define "numa-admission.hasConditions" -}}
{{- if semverCompare ">=1.28.0-0" .Capabilities.KubeVersion.Version }}yes{{ end }}
{{- end }}

{{- /* The hosts by which we are called beside the Services: {dns: [...], ip: [...]}, as JSON. */ -}}
{{- define "numa-admission.hosts" -}}
{{- $dns := .Values.certificates.extraDNSNames | default list }}
{{- $ip := .Values.certificates.extraIPAddresses | default list }}
{{- range $role := ternary (list "rules" "ledger") (list "rules") .Values.ledger.enabled }}
{{- with (index $.Values $role).url }}
{{- $host := (urlParse .).hostname }}
{{- if regexMatch "^[0-9.]+$|:" $host }}{{- $ip = append $ip $host }}{{- else }}{{- $dns = append $dns $host }}{{- end }}
{{- end }}
{{- end }}
{{- dict "dns" (uniq $dns) "ip" (uniq $ip) | toJson }}
{{- end }}

{{- define "numa-admission.securityContext" -}}
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
readOnlyRootFilesystem: true
{{- end }}
