{{- /*
The parts of a pod with uWSGI that this chart provides. Make uwsgi-headroom a dependency of your chart, then in your pod:

  shareProcessNamespace: true
  containers:
    - name: app
      volumeMounts:
        {{- include "uwsgi-headroom.volumeMounts" (index .Subcharts "uwsgi-headroom") | nindent 8 }}
    {{- include "uwsgi-headroom.sidecar" (index .Subcharts "uwsgi-headroom") | nindent 4 }}
  volumes:
    {{- include "uwsgi-headroom.volumes" (index .Subcharts "uwsgi-headroom") | nindent 4 }}
*/ -}}

{{- define "uwsgi-headroom.sidecar" -}}
{{- $stats := printf "%s=%s/%s" .Values.sidecar.server .Values.sidecar.directory .Values.sidecar.socket -}}
{{- include "uwsgi-headroom.container" (dict "root" . "stats" (list $stats) "beside" true) -}}
{{- end }}

{{- /* The exporter. stats: the servers that it reads; beside: whether uWSGI is in the same pod. */ -}}
{{- define "uwsgi-headroom.container" -}}
{{- $root := .root -}}
{{- $values := .root.Values -}}
{{- $asRoot := and .beside $values.sidecar.waitsBeyondYama -}}
- name: uwsgi-headroom
  image: {{ include "uwsgi-headroom.image" $root | quote }}
  imagePullPolicy: {{ $values.image.pullPolicy }}
  args:
    {{- range .stats }}
    - --stats
    - {{ . | quote }}
    {{- end }}
    {{- with $values.sidecar.args }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  env:
    - name: UWSGI_HEADROOM_WEB_LISTEN_ADDRESS
      value: {{ printf ":%v" $values.sidecar.port | quote }}
    {{- if $values.sidecar.webConfigSecret }}
    - name: UWSGI_HEADROOM_WEB_CONFIG_FILE
      value: /etc/uwsgi-headroom/web/web-config.yml
    {{- end }}
    {{- with $values.sidecar.env }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  ports:
    - name: headroom
      containerPort: {{ $values.sidecar.port }}
  # No readiness probe: an exporter with a fault must not take its application out of service.
  livenessProbe:
    {{- if $values.sidecar.webConfigSecret }}
    # The kubelet has neither the certificate nor the password; this check needs none.
    exec: {command: [python3, -I, /opt/uwsgi-headroom/healthcheck.py]}
    {{- else }}
    httpGet: {path: /-/healthy, port: headroom}
    {{- end }}
    periodSeconds: 30
    timeoutSeconds: 5
  resources:
    {{- toYaml $values.sidecar.resources | nindent 4 }}
  securityContext:
    {{- if $asRoot }}
    # Kubernetes gives added capabilities to root only.
    runAsNonRoot: false
    runAsUser: 0
    {{- else }}
    runAsNonRoot: true
    runAsUser: {{ $values.sidecar.runAsUser }}
    {{- end }}
    runAsGroup: {{ $values.sidecar.runAsGroup }}
    readOnlyRootFilesystem: true
    allowPrivilegeEscalation: false
    capabilities:
      drop: [ALL]
      {{- if $asRoot }}
      add: [DAC_READ_SEARCH, SYS_PTRACE]
      {{- end }}
    seccompProfile: {type: RuntimeDefault}
  {{- if or .beside $values.sidecar.webConfigSecret }}
  volumeMounts:
    {{- if .beside }}
    {{- include "uwsgi-headroom.volumeMounts" $root | nindent 4 }}
    {{- end }}
    {{- if $values.sidecar.webConfigSecret }}
    - name: uwsgi-headroom-web
      mountPath: /etc/uwsgi-headroom/web
      readOnly: true
    {{- end }}
  {{- end }}
{{- end }}

{{- define "uwsgi-headroom.volumeMounts" -}}
- name: uwsgi-headroom-run
  mountPath: {{ .Values.sidecar.directory }}
{{- end }}

{{- define "uwsgi-headroom.volumes" -}}
- name: uwsgi-headroom-run
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
{{- include "uwsgi-headroom.webVolume" . }}
{{- end }}

{{- define "uwsgi-headroom.webVolume" -}}
{{- with .Values.sidecar.webConfigSecret }}
- name: uwsgi-headroom-web
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- end }}
