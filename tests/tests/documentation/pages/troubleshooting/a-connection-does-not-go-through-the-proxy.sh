istio-init -i '*' -b '*'
