{{/* The name of everything this release makes. */}}
{{- define "sealcast.fullname" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "sealcast.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sealcast.labels" -}}
{{ include "sealcast.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "sealcast.secret" -}}
{{ .Values.secrets.existingSecret | default (include "sealcast.fullname" .) }}
{{- end }}

{{/* The gateway's settings, with those that the chart decides. */}}
{{- define "sealcast.settings" -}}
{{- $own := dict
  "listen" "0.0.0.0:8080"
  "admin" (dict "listen" "0.0.0.0:8081")
  "key_file" "/etc/sealcast/keys/gateway.key"
  "resumption" (dict "ticket_key_file" "/etc/sealcast/keys/tickets.key") }}
{{- toYaml (mergeOverwrite (deepCopy .Values.config) $own) }}
{{- end }}
