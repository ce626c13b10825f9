{{- define "fence-proxy.injector.secretName" -}}
{{- if eq .Values.injector.certificates.mode "existing" }}
{{- required "injector.certificates.secretName: with mode existing, name the Secret" .Values.injector.certificates.secretName }}
{{- else }}
{{- printf "%s-injector-tls" (include "fence-proxy.fullname" .) }}
{{- end }}
{{- end }}

{{- define "fence-proxy.injector.hosts" -}}
{{- $service := printf "%s-injector.%s" (include "fence-proxy.fullname" .) .Release.Namespace }}
{{- list (printf "%s.svc" $service) (printf "%s.svc.cluster.local" $service) | toYaml }}
{{- end }}

{{/* With mode helm: ca.crt, tls.crt and tls.key, as the Secret that there is has them; only the first time new ones are made. */}}
{{- define "fence-proxy.injector.pair" -}}
{{- $there := lookup "v1" "Secret" .Release.Namespace (include "fence-proxy.injector.secretName" .) }}
{{- if and $there (hasKey (default dict $there.data) "ca.crt") }}
{{- pick $there.data "ca.crt" "tls.crt" "tls.key" | toYaml }}
{{- else }}
{{- $days := int .Values.injector.certificates.days }}
{{- $hosts := include "fence-proxy.injector.hosts" . | fromYamlArray }}
{{- $ca := genCA (printf "%s-injector-ca" (include "fence-proxy.fullname" .)) $days }}
{{- $pair := genSignedCert (first $hosts) nil $hosts $days $ca }}
{{- dict "ca.crt" ($ca.Cert | b64enc) "tls.crt" ($pair.Cert | b64enc) "tls.key" ($pair.Key | b64enc) | toYaml }}
{{- end }}
{{- end }}
