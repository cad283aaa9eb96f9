{{/* What is needed of kustomize to read the folders of manifests/ as they are. Objects go from one template to
the next as JSON, {"items": [...]}. */}}

{{/* The objects of one file, in the release's namespace: .root, .path */}}
{{- define "berth.read" -}}
{{- $text := .root.Files.Get .path -}}
{{- if not $text -}}{{- fail (printf "%s is not in the chart" .path) -}}{{- end -}}
{{- $items := list -}}
{{- range regexSplit "(?m)^---\\s*$" (replace "berth-system" .root.Release.Namespace $text) -1 -}}
{{- $object := fromYaml . -}}
{{- if hasKey $object "Error" -}}{{- fail (printf "%s: %s" $.path $object.Error) -}}{{- end -}}
{{- if $object -}}{{- $items = append $items $object -}}{{- end -}}
{{- end -}}
{{- dict "items" $items | toJson -}}
{{- end -}}

{{/* A folder's resources, generated ConfigMaps (without a hash in their names) and labels; other folders that it
names are left out: .root, .folder, .without (files) */}}
{{- define "berth.folder" -}}
{{- $kustomization := .root.Files.Get (printf "%s/kustomization.yaml" .folder) | fromYaml -}}
{{- $items := list -}}
{{- range $kustomization.resources -}}
{{- if not (or (hasPrefix ".." .) (has . $.without)) -}}
{{- $items = concat $items (include "berth.read" (dict "root" $.root "path" (printf "%s/%s" $.folder .)) | fromJson).items -}}
{{- end -}}
{{- end -}}
{{- range $kustomization.configMapGenerator -}}
{{- $data := dict -}}
{{- range .files -}}
{{- $parts := splitList "=" . -}}
{{- $text := $.root.Files.Get (printf "%s/%s" $.folder (last $parts)) -}}
{{- $_ := set $data (first $parts) (replace "berth-system" $.root.Release.Namespace $text) -}}
{{- end -}}
{{- $metadata := dict "name" .name "namespace" $.root.Release.Namespace -}}
{{- if .options -}}{{- $_ := set $metadata "labels" .options.labels -}}{{- end -}}
{{- $items = append $items (dict "apiVersion" "v1" "kind" "ConfigMap" "metadata" $metadata "data" $data) -}}
{{- end -}}
{{- range $pair := $kustomization.labels -}}
{{- range $items -}}
{{- $_ := set .metadata "labels" (merge (default dict .metadata.labels) $pair.pairs) -}}
{{- end -}}
{{- end -}}
{{- dict "items" $items "patches" (default list $kustomization.patches) | toJson -}}
{{- end -}}

{{/* Changes .object by one operation of a JSON patch (RFC 6902) without escapes in its path: .operation */}}
{{- define "berth.operation" -}}
{{- $op := .operation.op -}}
{{- $keys := splitList "/" (trimPrefix "/" .operation.path) -}}
{{- $key := last $keys -}}
{{- $at := .object -}}
{{- $holder := dict -}}
{{- $name := "" -}}
{{- range initial $keys -}}
{{- $holder = $at -}}
{{- $name = . -}}
{{- if kindIs "slice" $at -}}{{- $at = index $at (int .) -}}{{- else -}}{{- $at = index $at . -}}{{- end -}}
{{- end -}}
{{- $value := list -}}
{{- if hasKey .operation "value" -}}{{- $value = list .operation.value -}}{{- end -}}
{{- if eq $op "test" -}}
{{- $is := "" -}}
{{- if kindIs "slice" $at -}}{{- $is = index $at (int $key) -}}{{- else -}}{{- $is = index $at $key -}}{{- end -}}
{{- if ne (toJson $is) (toJson .operation.value) -}}
{{- fail (printf "%s %s: %s is %s" .object.kind .object.metadata.name .operation.path (toJson $is)) -}}
{{- end -}}
{{- else if not (has $op (list "add" "replace" "remove")) -}}
{{- fail (printf "unknown operation %s" $op) -}}
{{- else if kindIs "map" $at -}}
{{- if eq $op "remove" -}}{{- $_ := unset $at $key -}}{{- else -}}{{- $_ := set $at $key (first $value) -}}{{- end -}}
{{- else -}}
{{- $rest := int $key -}}
{{- if ne $op "add" -}}{{- $rest = add1 $rest -}}{{- end -}}
{{- $_ := set $holder $name (concat (slice $at 0 (int $key)) $value (slice $at $rest)) -}}
{{- end -}}
{{- end -}}

{{/* Changes .items by .patches, each of which must meet an object unless its file is left out: .optional (kinds) */}}
{{- define "berth.patch" -}}
{{- range $patch := .patches -}}
{{- $met := has $patch.target.kind $.optional -}}
{{- range $object := $.items -}}
{{- if and (eq $object.kind $patch.target.kind) (eq $object.metadata.name $patch.target.name) -}}
{{- $met = true -}}
{{- range fromYamlArray $patch.patch -}}
{{- include "berth.operation" (dict "object" $object "operation" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if not $met -}}{{- fail (printf "no %s %s to patch" $patch.target.kind $patch.target.name) -}}{{- end -}}
{{- end -}}
{{- end -}}
