{{/*
For other charts. Each takes the scope of this chart as a dependency:

  {{- $fence := index .Subcharts "fence-proxy" }}
  spec:
    initContainers:
      {{- include "fence-proxy.sidecar" $fence | nindent 8 }}
    containers:
      {{- include "fence-proxy.ordinarySidecar" $fence | nindent 8 }}
      - name: agent
        env:
          - name: REDIS_URL
            value: {{ include "fence-proxy.url" $fence }}
        volumeMounts:
          {{- include "fence-proxy.agentMounts" $fence | nindent 12 }}
    volumes:
      {{- include "fence-proxy.volumes" $fence | nindent 8 }}
*/}}

{{/* The sidecar as an entry of initContainers; nothing before Kubernetes 1.29. */}}
{{- define "fence-proxy.sidecar" -}}
{{- if eq (include "fence-proxy.native" .) "true" }}
- {{ include "fence-proxy.sidecar.container" (dict "scope" . "upstream" true) | nindent 2 | trim }}
  restartPolicy: Always
{{- end }}
{{- end }}

{{/* The sidecar as the first entry of containers, before Kubernetes 1.29; else nothing. */}}
{{- define "fence-proxy.ordinarySidecar" -}}
{{- if eq (include "fence-proxy.native" .) "false" }}
- {{ include "fence-proxy.sidecar.container" (dict "scope" . "upstream" true) | nindent 2 | trim }}
{{- end }}
{{- end }}

{{/* The sidecar's address, as a client's URL. */}}
{{- define "fence-proxy.url" -}}
{{- if eq .Values.sidecar.transport "unix" -}}
unix:///run/fence-proxy/redis.sock
{{- else -}}
redis://127.0.0.1:{{ .Values.sidecar.port }}
{{- end }}
{{- end }}

{{/* Entries of the pod's volumes. */}}
{{- define "fence-proxy.volumes" -}}
- name: fence-proxy-config
  configMap:
    name: {{ include "fence-proxy.fullname" . }}
{{- if eq .Values.sidecar.transport "unix" }}
- name: fence-proxy-socket
  emptyDir: {}
{{- end }}
{{- include "fence-proxy.secretVolumes" . }}
{{- end }}

{{/* Entries of the agent's volumeMounts, with transport unix. */}}
{{- define "fence-proxy.agentMounts" -}}
{{- if eq .Values.sidecar.transport "unix" }}
- name: fence-proxy-socket
  mountPath: /run/fence-proxy
{{- end }}
{{- end }}

{{/* "true" or "false". */}}
{{- define "fence-proxy.native" -}}
{{- if eq .Values.sidecar.native "auto" }}
{{- semverCompare ">=1.29-0" .Capabilities.KubeVersion.Version }}
{{- else }}
{{- .Values.sidecar.native }}
{{- end }}
{{- end }}

{{/* Where the data is, as a variable: of a group of values with url, secretKeyRef and configMapKeyRef. */}}
{{- define "fence-proxy.upstreamVariable" -}}
- name: FENCE_UPSTREAM_URL
{{- if .secretKeyRef }}
  valueFrom:
    secretKeyRef:
      {{- toYaml .secretKeyRef | nindent 6 }}
{{- else if .configMapKeyRef }}
  valueFrom:
    configMapKeyRef:
      {{- toYaml .configMapKeyRef | nindent 6 }}
{{- else }}
  value: {{ .url | quote }}
{{- end }}
{{- end }}

{{/* The container: of scope, and upstream (whether its variable is known here). */}}
{{- define "fence-proxy.sidecar.container" -}}
{{- $scope := .scope }}
{{- with .scope.Values.sidecar -}}
name: {{ .name }}
image: {{ include "fence-proxy.image" $scope }}
imagePullPolicy: {{ $scope.Values.image.pullPolicy }}
args:
  - serve
  - --config=/etc/fence-proxy/config.yaml
env:
  - name: FENCE_LISTEN
    {{- if eq .transport "unix" }}
    value: {{ printf "unix:///run/fence-proxy/redis.sock?mode=%s" .socketMode }}
    {{- else }}
    value: {{ printf "127.0.0.1:%d" (int .port) | quote }}
    {{- end }}
  - name: FENCE_ADMIN
    value: {{ printf ":%d" (int .adminPort) | quote }}
  {{- if $.upstream }}
  {{- if not (or .upstream.url .upstream.secretKeyRef .upstream.configMapKeyRef) }}
  {{- fail "sidecar.upstream: say where the Redis is, by url, secretKeyRef or configMapKeyRef" }}
  {{- end }}
  {{- include "fence-proxy.upstreamVariable" .upstream | nindent 2 }}
  {{- end }}
  {{- with .env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
ports:
  - name: fence-admin
    containerPort: {{ .adminPort }}
    protocol: TCP
startupProbe:
  httpGet:
    path: /readyz
    port: {{ .adminPort }}
  {{- toYaml .startupProbe | nindent 2 }}
livenessProbe:
  httpGet:
    path: /healthz
    port: {{ .adminPort }}
  {{- toYaml .livenessProbe | nindent 2 }}
{{- if .readinessProbe.enabled }}
readinessProbe:
  httpGet:
    path: /readyz
    port: {{ .adminPort }}
  {{- toYaml (omit .readinessProbe "enabled") | nindent 2 }}
{{- end }}
{{- if eq (include "fence-proxy.native" $scope) "false" }}
lifecycle:
  # The next container starts when this has ended.
  postStart:
    exec:
      command: [/fence-proxy, wait, ready, --config=/etc/fence-proxy/config.yaml, --timeout=60s]
  # All containers are told to end at once: the agent's last writes come first.
  preStop:
    exec:
      command: [/fence-proxy, wait, unused, --config=/etc/fence-proxy/config.yaml, --timeout=20s]
{{- end }}
resources:
  {{- toYaml .resources | nindent 2 }}
securityContext:
  {{- toYaml .securityContext | nindent 2 }}
volumeMounts:
  - name: fence-proxy-config
    mountPath: /etc/fence-proxy
    readOnly: true
  {{- if eq .transport "unix" }}
  - name: fence-proxy-socket
    mountPath: /run/fence-proxy
  {{- end }}
  {{- with include "fence-proxy.secretMounts" $scope | trim }}
  {{- . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Files of Secrets, as entries of volumes and of the proxy's volumeMounts. */}}
{{- define "fence-proxy.secretVolumes" -}}
{{- range $i, $s := .Values.secretFiles }}
- name: fence-proxy-secret-{{ $i }}
  secret:
    secretName: {{ $s.secretName }}
{{- end }}
{{- end }}

{{- define "fence-proxy.secretMounts" -}}
{{- range $i, $s := .Values.secretFiles }}
- name: fence-proxy-secret-{{ $i }}
  mountPath: {{ $s.mountPath }}
  readOnly: true
{{- end }}
{{- end }}
