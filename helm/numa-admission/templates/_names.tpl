{{- define "numa-admission.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 55 | trimSuffix "-" }}
{{- end }}

{{- define "numa-admission.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 55 | trimSuffix "-" }}
{{- else if contains (include "numa-admission.name" .) .Release.Name }}
{{- .Release.Name | trunc 55 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "numa-admission.name" .) | trunc 55 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "numa-admission.selector" -}}
app.kubernetes.io/name: {{ include "numa-admission.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
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

{{- define "numa-admission.hasConditions" -}}
{{- if semverCompare ">=1.28.0-0" .Capabilities.KubeVersion.Version }}yes{{ end }}
{{- end }}

{{- define "numa-admission.securityContext" -}}
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
readOnlyRootFilesystem: true
{{- end }}
