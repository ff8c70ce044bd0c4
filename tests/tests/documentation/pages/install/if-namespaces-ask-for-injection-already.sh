cat >kustomization.yaml <<'EOF'
sortOptions: {order: legacy}
resources:
- outrigger/manifests/base
components:
- outrigger/manifests/components/dormant
EOF
