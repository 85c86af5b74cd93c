{{- define "souk.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "souk.labels" -}}
app.kubernetes.io/name: souk
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* The market's section of a file, and the rest that all daemons have. */}}
{{- define "souk.common" -}}
market:
  nats: {{ required "market.nats: write tls://HOST:4222 of each NATS server" .Values.market.nats | quote }}
  etcd: {{ required "market.etcd: write HOST:2379 of each member" .Values.market.etcd | toJson }}
health: {listen: "0.0.0.0:{{ .Values.health.port }}", token_file: /etc/souk-health/token}
log: {format: json}
{{- end }}

{{/* Who the process is: files of its secret, by the name of its pod, or of its node. */}}
{{- define "souk.env" -}}
- {name: POD, valueFrom: {fieldRef: {fieldPath: {{ .name | default "metadata.name" }}}}}
- {name: SOUK_MARKET_CREDS, value: /etc/souk-auth/$(POD).creds}
- {name: SOUK_MARKET_CA, value: /etc/souk-auth/ca.pem}
- {name: SOUK_MARKET_CERT, value: /etc/souk-auth/$(POD).pem}
- {name: SOUK_MARKET_KEY, value: /etc/souk-auth/$(POD).key}
{{- if .journal }}
- {name: SOUK_CHECKPOINTS_KEY, value: /etc/souk-auth/$(POD).note}
- {name: SOUK_CHECKPOINTS_POLICY, value: /etc/souk-auth/policy}
{{- end }}
{{- end }}

{{- define "souk.probes" -}}
livenessProbe:
  httpGet: {path: /livez, port: health}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: {{ .ready | default "/readyz" }}, port: health}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 1
{{- end }}

{{- define "souk.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "souk.mounts" -}}
- {name: config, mountPath: /etc/souk, readOnly: true}
- {name: auth, mountPath: /etc/souk-auth, readOnly: true}
- {name: health, mountPath: /etc/souk-health, readOnly: true}
{{- if and .root.Values.machineID .data }}
- {name: machine-id, mountPath: /etc/machine-id, readOnly: true}
{{- end }}
{{- if .data }}
- {name: data, mountPath: /data}
{{- end }}
{{- end }}

{{- define "souk.volumes" -}}
- name: config
  configMap: {name: {{ .root.Release.Name }}-{{ .component }}}
- name: auth
  secret: {secretName: {{ .root.Release.Name }}-{{ .component }}, defaultMode: 0440}
- name: health
  secret: {secretName: {{ .root.Values.health.tokenSecret }}, defaultMode: 0440}
{{- if and .root.Values.machineID .data }}
- name: machine-id
  hostPath: {path: /etc/machine-id, type: File}
{{- end }}
{{- end }}

{{- define "souk.claim" -}}
- metadata: {name: data}
  spec:
    accessModes: [ReadWriteOnce]
    {{- with .class }}
    storageClassName: {{ . }}
    {{- end }}
    resources: {requests: {storage: {{ .size }}}}
{{- end }}

{{/* A part of the market: file, pods of stable names, and how many of them may be away. */}}
{{- define "souk.part" -}}
{{- $name := printf "%s-%s" .root.Release.Name .component }}
{{- $labels := include "souk.labels" . }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $name }}
  labels: {{- $labels | nindent 4 }}
data:
  {{ .command }}.yaml: |
    {{- include "souk.common" .root | nindent 4 }}
    {{- toYaml .file | nindent 4 }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}-pods
  labels: {{- $labels | nindent 4 }}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {{- $labels | nindent 4 }}
  ports: [{name: health, port: {{ .root.Values.health.port }}, targetPort: health}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ $name }}
  labels: {{- $labels | nindent 4 }}
spec:
  serviceName: {{ $name }}-pods
  replicas: {{ .replicas }}
  podManagementPolicy: Parallel
  minReadySeconds: {{ .settled | default 0 }}
  selector:
    matchLabels: {{- $labels | nindent 6 }}
  template:
    metadata:
      labels: {{- $labels | nindent 8 }}
      annotations:
        checksum/config: {{ toYaml .file | sha256sum }}
        {{- with .root.Values.podAnnotations }}{{ toYaml . | nindent 8 }}{{ end }}
    spec:
      terminationGracePeriodSeconds: {{ .grace }}
      automountServiceAccountToken: false
      securityContext: {fsGroup: 65532, fsGroupChangePolicy: OnRootMismatch}
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
      {{- end }}
      affinity:
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
            - weight: 100
              podAffinityTerm:
                topologyKey: kubernetes.io/hostname
                labelSelector:
                  matchLabels: {{- $labels | nindent 20 }}
      containers:
        - name: {{ .command }}
          image: {{ include "souk.image" .root }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          command: [{{ .command }}, --config, /etc/souk/{{ .command }}.yaml]
          env:
            {{- include "souk.env" (dict "journal" .data) | nindent 12 }}
            {{- range .env }}
            - {name: {{ . }}, value: $(POD)}
            {{- end }}
          ports:
            - {name: health, containerPort: {{ .root.Values.health.port }}}
            {{- if .listens }}
            - {name: http, containerPort: 8080}
            {{- end }}
          {{- include "souk.probes" . | nindent 10 }}
          resources: {{- toYaml .resources | nindent 12 }}
          securityContext: {{- include "souk.security" . | nindent 12 }}
          volumeMounts:
            {{- include "souk.mounts" . | nindent 12 }}
            {{- if .tls }}
            - {name: tls, mountPath: /etc/souk-tls, readOnly: true}
            {{- end }}
      volumes:
        {{- include "souk.volumes" . | nindent 8 }}
        {{- if .tls }}
        - name: tls
          secret: {secretName: {{ .tls }}, defaultMode: 0440}
        {{- end }}
  {{- with .storage }}
  volumeClaimTemplates:
    {{- include "souk.claim" . | nindent 4 }}
  {{- end }}
{{- include "souk.budget" (dict "name" $name "labels" $labels "replicas" .replicas) }}
{{- end }}

{{/* One pod may be away at a time; where there is only one, none is kept from a drained node. */}}
{{- define "souk.budget" -}}
{{- if gt (int .replicas) 1 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  labels: {{- .labels | nindent 4 }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {{- .labels | nindent 6 }}
{{- end }}
{{- end }}
