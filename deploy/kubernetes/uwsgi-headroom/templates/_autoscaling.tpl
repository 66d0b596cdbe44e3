{{- /*
Utilization of each pod in the last minute: the part of its capacity that is in use, for the limit that comes first.
Above 1, requests wait in the listen queue.

  1. 1 / headroom. The limit `hottest_interpreter` is left out: it says that work is spread unevenly inside of a pod, and
     more pods do not change that.
  2. Requests in service and in the listen queue, divided by threads. Headroom never falls below 1, so without the
     queue an overloaded pod would look merely full, and the autoscaler would take several steps.
  3. 0 for a pod that is up: headroom is absent while a pod is nearly idle.

A pod that cannot be read is in none of them: it has no utilization instead of a utilization of 0.
*/ -}}
{{- define "uwsgi-headroom.utilization" -}}
{{- $labels := printf "namespace=%q,server=%q" .Release.Namespace .Values.autoscaling.server -}}
max by (namespace, pod) (
  1 / uwsgi_headroom_ratio{ {{- $labels }},window="1m",limit!="hottest_interpreter"}
  or
  (
    uwsgi_concurrency{ {{- $labels }},window="1m",method="observed"}
    + ignoring (method) uwsgi_queue_wait_seconds{ {{- $labels }},window="1m"} * uwsgi_throughput_requests_per_second{ {{- $labels }},window="1m"}
  ) / ignoring (method, window) (uwsgi_threads_available{ {{- $labels -}} } > 0)
  or
  0 * (uwsgi_up{ {{- $labels -}} } == 1)
)
{{- end }}

{{- define "uwsgi-headroom.behavior" -}}
# Up at once: the window of the metric is a minute already. At most double, because new pods take no load while they
# start. Down slowly: the highest recommendation of the window counts, so a short lull removes nothing.
scaleUp:
  stabilizationWindowSeconds: 0
  policies:
    - {type: Percent, value: 100, periodSeconds: 60}
    - {type: Pods, value: 2, periodSeconds: 60}
  selectPolicy: Max
scaleDown:
  stabilizationWindowSeconds: {{ .Values.autoscaling.scaleDownSeconds }}
  policies:
    - {type: Percent, value: 20, periodSeconds: 60}
    - {type: Pods, value: 1, periodSeconds: 60}
  selectPolicy: Max
{{- end }}
