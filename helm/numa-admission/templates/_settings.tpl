{{- /* The settings of one role: those of the values and what the chart itself sets. Takes root and role. */ -}}
{{- define "numa-admission.settings" -}}
{{- $values := .root.Values }}
{{- $settings := deepCopy ($values.settings | default dict) }}
{{- $guards := and $values.ledger.enabled (index $values.webhooks "bind").enabled }}
{{- $ours := dict "rules" (dict "enforcement" $values.enforcement) "capacity" (dict "guardsBindings" $guards) }}
{{- $_ := set $ours "server" (dict "role" .role) }}
{{- /* A ledger with a leader drains until another leads, has written the slice, and every node has seen it. */}}
{{- $drain := ternary 15 5 (and (eq .role "ledger") $values.ledger.leaderElection) }}
{{- $stop := .root.Files.Get "files/stop.json" | fromJson }}
{{- $graceful := subf (float64 $values.terminationGracePeriodSeconds) (float64 $values.preStopSeconds) $stop.endingSeconds }}
{{- $server := $settings.server | default dict }}
{{- $_ := set $settings "server" (merge $server (dict "drainSeconds" $drain "gracefulSeconds" $graceful)) }}
{{- /* A call may take as long as the API server waits for it. */}}
{{- $granted := dict }}
{{- range $each := .root.Files.Get "files/webhooks.json" | fromJsonArray }}
{{- $key := printf "%sSeconds" (trimPrefix "/" $each.path) }}
{{- $_ := set $granted $key (max (index $values.webhooks $each.row).timeoutSeconds (get $granted $key | default 1)) }}
{{- end }}
{{- $_ := set $settings "timeouts" (merge ($settings.timeouts | default dict) $granted) }}
{{- if eq .role "rules" }}{{- $_ := set $ours.server "workers" ($values.rules.workers | int) }}{{- end }}
{{- if eq .role "ledger" }}
{{- $cluster := dict "live" true "namespace" .root.Release.Namespace "checkpoint" (include "numa-admission.checkpoint" .root) "steers" $guards }}
{{- if $values.ledger.leaderElection }}
{{- $name := printf "%s-ledger" (include "numa-admission.fullname" .root) }}
{{- $_ := set $cluster "lease" $name }}
{{- $_ := set $cluster "service" $name }}
{{- end }}
{{- if not ($settings.capacity | default dict).pictureFile }}{{- $_ := set $ours "cluster" $cluster }}{{- end }}
{{- end }}
{{- $settings = mergeOverwrite $settings $ours }}
{{- if eq $values.enforcement "warn" }}
{{- /* The ledger's outcomes have no switch for everything at once. */}}
{{- $_ := set $settings.capacity "outcomes" (dict "never" "warn" "would_fail" "warn" "would_wait" "warn") }}
{{- $_ := unset $settings.capacity "namespaces" }}
{{- end }}
{{- toYaml $settings }}
{{- end }}

{{- /* What of one role's settings a running server does not take over (files/needs-restart.json). Takes root and role. */ -}}
{{- define "numa-admission.restartSettings" -}}
{{- $settings := include "numa-admission.settings" . | fromYaml }}
{{- $picked := dict }}
{{- range $section, $keys := .root.Files.Get "files/needs-restart.json" | fromJson }}
{{- $found := dict }}
{{- $raw := index $settings $section | default dict }}
{{- range $key := $keys }}{{- if hasKey $raw $key }}{{- $_ := set $found $key (index $raw $key) }}{{- end }}{{- end }}
{{- $_ := set $picked $section $found }}
{{- end }}
{{- toJson $picked }}
{{- end }}

{{- define "numa-admission.checkpoint" -}}
{{ include "numa-admission.fullname" . }}-checkpoint
{{- end }}
