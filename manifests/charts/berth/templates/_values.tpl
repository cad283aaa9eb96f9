{{/* What values.yaml says, put into the objects. */}}

{{/* A list of CEL. */}}
{{- define "berth.cel" -}}
{{- printf "['%s']" (join "', '" .) -}}
{{- end -}}

{{/* The policy's text: .text as shipped, .values */}}
{{- define "berth.policy" -}}
{{- if or .values.policy .values.schedulerNames -}}
{{- $shipped := fromYaml .text -}}
{{- $names := default $shipped.schedulerNames .values.schedulerNames -}}
{{- dict "apiVersion" $shipped.apiVersion "kind" $shipped.kind "schedulerNames" $names | merge (deepCopy .values.policy) | toYaml -}}
{{- else -}}
{{- .text -}}
{{- end -}}
{{- end -}}

{{/* The second scheduler's configuration: .text as shipped, .values, .devices */}}
{{- define "berth.schedulerConfig" -}}
{{- $config := fromYaml .text -}}
{{- if .values.schedulerNames -}}
{{- $profiles := list -}}
{{- range .values.schedulerNames -}}{{- $profiles = append $profiles (dict "schedulerName" .) -}}{{- end -}}
{{- $_ := set $config "profiles" $profiles -}}
{{- end -}}
{{- if .devices -}}
{{- $managed := list -}}
{{- range .devices -}}{{- $managed = append $managed (dict "name" . "ignoredByScheduler" false) -}}{{- end -}}
{{- $_ := set (first $config.extenders) "managedResources" $managed -}}
{{- end -}}
{{- if or .values.schedulerNames .devices -}}{{- toYaml $config -}}{{- else -}}{{- .text -}}{{- end -}}
{{- end -}}

{{/* Changes a Deployment's pods: .object, .values, .image (repository, tag), .replicas */}}
{{- define "berth.pods" -}}
{{- $_ := set .object.spec "replicas" .replicas -}}
{{- $pod := .object.spec.template.spec -}}
{{- $_ = set (first $pod.containers) "image" (printf "%s:%s" .image.repository .image.tag) -}}
{{- with .values.imagePullSecrets -}}
{{- $secrets := list -}}
{{- range . -}}{{- $secrets = append $secrets (dict "name" .) -}}{{- end -}}
{{- $_ = set $pod "imagePullSecrets" $secrets -}}
{{- end -}}
{{- with .values.nodeSelector -}}{{- $_ = set $pod "nodeSelector" . -}}{{- end -}}
{{- with .values.tolerations -}}{{- $_ = set $pod "tolerations" . -}}{{- end -}}
{{- with .values.affinity -}}{{- $_ = set $pod "affinity" . -}}{{- end -}}
{{- $_ = set $pod "priorityClassName" .values.priorityClassName -}}
{{- with .values.podAnnotations -}}{{- $_ = set $.object.spec.template.metadata "annotations" . -}}{{- end -}}
{{- end -}}

{{/* Changes a container's arguments: .container, .values. Berth refuses a flag that it is given twice, so that
extraArgs take the place of shipped ones. */}}
{{- define "berth.arguments" -}}
{{- $names := list -}}
{{- range .values.extraArgs -}}{{- $names = append $names (splitList "=" . | first) -}}{{- end -}}
{{- $args := list -}}
{{- range .container.args -}}
{{- if not (has (splitList "=" . | first) $names) -}}{{- $args = append $args . -}}{{- end -}}
{{- end -}}
{{- if .values.logLevel -}}{{- $args = concat $args (list "-v" (.values.logLevel | int | toString)) -}}{{- end -}}
{{- $_ := set .container "args" (concat $args .values.extraArgs) -}}
{{- end -}}

{{/* Changes an admission policy's lists: .object, .values, .devices */}}
{{- define "berth.admission" -}}
{{- range concat (default list .object.spec.matchConditions) (default list .object.spec.variables) -}}
{{- if $.values.schedulerNames -}}
{{- $names := include "berth.cel" $.values.schedulerNames -}}
{{- if eq .name "scheduler" -}}{{- $_ := set . "expression" (printf "object.spec.schedulerName in %s" $names) -}}{{- end -}}
{{- if eq .name "schedulerNames" -}}{{- $_ := set . "expression" $names -}}{{- end -}}
{{- end -}}
{{- if and $.values.tenants.deviceClasses (eq .name "deviceClasses") -}}
{{- $_ := set . "expression" (include "berth.cel" $.values.tenants.deviceClasses) -}}
{{- end -}}
{{- if and $.devices (has .name (list "berth-releases-it" "devices")) -}}
{{- $shipped := "['nvidia.com/gpu']" -}}
{{- if not (contains $shipped .expression) -}}{{- fail (printf "%s does not list the devices" .name) -}}{{- end -}}
{{- $_ := set . "expression" (replace $shipped (include "berth.cel" $.devices) .expression) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Changes .items by the values: .root */}}
{{- define "berth.values" -}}
{{- $values := .root.Values -}}
{{- $devices := list -}}
{{- range dig "resources" "devices" list $values.policy -}}{{- $devices = append $devices .name -}}{{- end -}}
{{- $arguments := dict "values" $values "devices" $devices -}}
{{- $hash := "" -}}
{{- range .items -}}
{{- $_ := set $arguments "object" . -}}
{{- $what := printf "%s %s" .kind .metadata.name -}}
{{- if eq $what "ConfigMap berth-policy" -}}
{{- $_ = set .data "policy.yaml" (include "berth.policy" (dict "text" (index .data "policy.yaml") "values" $values)) -}}
{{- else if eq $what "ConfigMap berth-scheduler-config" -}}
{{- $text := include "berth.schedulerConfig" (merge (dict "text" (index .data "kube-scheduler-config.yaml")) $arguments) -}}
{{- $_ = set .data "kube-scheduler-config.yaml" $text -}}
{{- $hash = sha256sum $text | trunc 10 -}}
{{- $_ = set .metadata "name" (printf "berth-scheduler-config-%s" $hash) -}}
{{- else if eq $what "Deployment berth" -}}
{{- $tag := default $.root.Chart.AppVersion $values.image.tag -}}
{{- include "berth.pods" (merge (dict "image" (dict "repository" $values.image.repository "tag" $tag) "replicas" $values.replicas) $arguments) -}}
{{- $container := first .spec.template.spec.containers -}}
{{- with $values.resources -}}{{- $_ = set $container "resources" . -}}{{- end -}}
{{- include "berth.arguments" (dict "container" $container "values" $values) -}}
{{- else if eq $what "Deployment berth-scheduler" -}}
{{- include "berth.pods" (merge (dict "image" $values.scheduler.image "replicas" $values.scheduler.replicas) $arguments) -}}
{{- else if eq .kind "ResourceQuota" -}}
{{- range .spec.scopeSelector.matchExpressions -}}{{- $_ = set . "values" (list $values.priorityClassName) -}}{{- end -}}
{{- else if has .kind (list "MutatingAdmissionPolicy" "ValidatingAdmissionPolicy") -}}
{{- include "berth.admission" $arguments -}}
{{- else if eq .kind "NetworkPolicy" -}}
{{- range .spec.ingress -}}{{- range .from -}}
{{- $_ = set .namespaceSelector.matchLabels "kubernetes.io/metadata.name" $values.monitoring.namespace -}}
{{- end -}}{{- end -}}
{{- else if and (eq $what "Service berth") $values.clusterIP -}}
{{- $_ = set .spec "clusterIP" $values.clusterIP -}}
{{- else if has .kind (list "ServiceMonitor" "PrometheusRule") -}}
{{- $_ = set .metadata "labels" (merge (deepCopy $values.monitoring.labels) .metadata.labels) -}}
{{- end -}}
{{- end -}}
{{/* A changed configuration restarts the second scheduler, as kustomize's hash does. */}}
{{- range .items -}}
{{- if eq (printf "%s %s" .kind .metadata.name) "Deployment berth-scheduler" -}}
{{- range .spec.template.spec.volumes -}}
{{- if .configMap -}}{{- $_ := set .configMap "name" (printf "%s-%s" .configMap.name $hash) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
