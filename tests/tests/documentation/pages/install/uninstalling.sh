cat >kustomization.yaml <<'EOF'
sortOptions: {order: legacy}
resources:
- outrigger/manifests/base
EOF
