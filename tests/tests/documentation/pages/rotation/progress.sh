timeout 30 bash -c "until webhook-certs status | grep -q 'generation 2'; do sleep 0.2; done"
