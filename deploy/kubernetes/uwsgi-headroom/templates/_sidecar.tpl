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
- name: uwsgi-headroom
  image: {{ include "uwsgi-headroom.image" . | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args:
    - --stats
    - {{ printf "%s=%s/%s" .Values.sidecar.server .Values.sidecar.directory .Values.sidecar.socket | quote }}
    {{- with .Values.sidecar.args }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  env:
    - name: UWSGI_HEADROOM_WEB_LISTEN_ADDRESS
      value: {{ printf ":%v" .Values.sidecar.port | quote }}
    {{- if .Values.sidecar.webConfigSecret }}
    - name: UWSGI_HEADROOM_WEB_CONFIG_FILE
      value: /etc/uwsgi-headroom/web/web-config.yml
    {{- end }}
    {{- with .Values.sidecar.env }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  ports:
    - name: headroom
      containerPort: {{ .Values.sidecar.port }}
  # No readiness probe: an exporter with a fault must not take its application out of service.
  livenessProbe:
    {{- if .Values.sidecar.webConfigSecret }}
    # The kubelet has neither the certificate nor the password; this check needs none.
    exec: {command: [python3, -I, /opt/uwsgi-headroom/healthcheck.py]}
    {{- else }}
    httpGet: {path: /-/healthy, port: headroom}
    {{- end }}
    periodSeconds: 30
    timeoutSeconds: 5
  resources:
    {{- toYaml .Values.sidecar.resources | nindent 4 }}
  securityContext:
    {{- if .Values.sidecar.waitsBeyondYama }}
    # Kubernetes gives added capabilities to root only.
    runAsNonRoot: false
    runAsUser: 0
    {{- else }}
    runAsNonRoot: true
    runAsUser: {{ .Values.sidecar.runAsUser }}
    {{- end }}
    runAsGroup: {{ .Values.sidecar.runAsGroup }}
    readOnlyRootFilesystem: true
    allowPrivilegeEscalation: false
    capabilities:
      drop: [ALL]
      {{- if .Values.sidecar.waitsBeyondYama }}
      add: [DAC_READ_SEARCH, SYS_PTRACE]
      {{- end }}
    seccompProfile: {type: RuntimeDefault}
  volumeMounts:
    {{- include "uwsgi-headroom.volumeMounts" . | nindent 4 }}
    {{- if .Values.sidecar.webConfigSecret }}
    - name: uwsgi-headroom-web
      mountPath: /etc/uwsgi-headroom/web
      readOnly: true
    {{- end }}
{{- end }}

{{- define "uwsgi-headroom.volumeMounts" -}}
- name: uwsgi-headroom-run
  mountPath: {{ .Values.sidecar.directory }}
{{- end }}

{{- define "uwsgi-headroom.volumes" -}}
- name: uwsgi-headroom-run
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
{{- with .Values.sidecar.webConfigSecret }}
- name: uwsgi-headroom-web
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- end }}
