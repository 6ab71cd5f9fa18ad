{{- /* The name of everything. The controller looks for its Secret, Lease and webhook under it, so it is not to be chosen. */ -}}
{{- define "waypoint.name" -}}waypoint-controller{{- end -}}

{{- define "waypoint.selector" -}}
app.kubernetes.io/name: {{ include "waypoint.name" . }}
{{- end -}}

{{- define "waypoint.labels" -}}
{{ include "waypoint.selector" . }}
app.kubernetes.io/part-of: waypoint
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- /* A whole image name, of a list: the root, the image's name, its digest. */ -}}
{{- define "waypoint.image" -}}
{{- $root := index . 0 -}}{{- $digest := index . 2 -}}
{{- $registry := required "image.registry is needed: where your images are, such as --set image.registry=registry.example.com/mesh (make images makes them)" $root.Values.image.registry -}}
{{- if $digest -}}
{{ $registry }}/{{ index . 1 }}@{{ $digest }}
{{- else -}}
{{ $registry }}/{{ index . 1 }}:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}
{{- end -}}
{{- end -}}
