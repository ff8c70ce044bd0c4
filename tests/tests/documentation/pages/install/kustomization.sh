cat >kustomization.yaml <<'EOF'
sortOptions: {order: legacy}
resources:
- outrigger/manifests/base
components:
- outrigger/manifests/components/auto
EOF
kubectl apply -k . >/dev/null
