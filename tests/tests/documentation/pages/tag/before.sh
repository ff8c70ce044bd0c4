kubectl create namespace shop
kubectl -n shop wait --for=create serviceaccount/default
kubectl create namespace istio-system
cat >revision.yaml <<'EOF'
apiVersion: v1
kind: ConfigMap
metadata: {name: revision, annotations: {config.kubernetes.io/local-config: "true"}}
data: {revision: canary}
EOF
cat >kustomization.yaml <<'EOF'
resources: [outrigger/manifests/base, revision.yaml]
components: [outrigger/manifests/components/revision]
EOF
kubectl apply -k . >/dev/null
