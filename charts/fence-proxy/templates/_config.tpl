{{/*
The proxy's configuration file. Where nothing says where the data is, no proxy may serve a store of its own in memory: so the
upstream is a host that there is not. FENCE_UPSTREAM_URL wins over it.
*/}}
{{- define "fence-proxy.config" -}}
{{- $upstream := dict "upstream" (dict "url" "redis://fence-upstream-url-is-not-set.invalid:6379") -}}
{{- toYaml (merge (dict) .Values.config $upstream) }}
{{- with concat (include "fence-proxy.presetRules" . | fromYamlArray) .Values.rules }}
rules:
  {{- toYaml . | nindent 2 }}
{{- else }}
rules: []
{{- end }}
{{- end }}

{{- define "fence-proxy.presetRules" -}}
{{- range .Values.presets }}
- preset: {{ . }}
{{- else -}}
[]
{{- end }}
{{- end }}

{{- define "fence-proxy.lockProvider" -}}
{{- dig "lock" "provider" "redis" .Values.config }}
{{- end }}
