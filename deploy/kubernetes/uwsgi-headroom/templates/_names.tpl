{{- define "uwsgi-headroom.labels" -}}
app.kubernetes.io/name: uwsgi-headroom
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "uwsgi-headroom.fullname" -}}
{{- if contains "uwsgi-headroom" .Release.Name -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-uwsgi-headroom" (.Release.Name | trunc 25 | trimSuffix "-") }}
{{- end -}}
{{- end }}

{{- define "uwsgi-headroom.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{- with .Values.image.digest -}}
{{ $.Values.image.repository }}@{{ . }}
{{- else -}}
{{ .Values.image.repository }}:{{ $tag }}
{{- end -}}
{{- end }}
