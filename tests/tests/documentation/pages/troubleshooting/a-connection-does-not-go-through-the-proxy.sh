istio-init -i '*' -b '*'
iptables -t nat -D OUTPUT -j ISTIO_OUTPUT
