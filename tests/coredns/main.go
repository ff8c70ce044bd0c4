// CoreDNS with the plugins alone that the DNS of a test node needs.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/file"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() {
	// A query passes through them in this order.
	dnsserver.Directives = []string{"bind", "ready", "errors", "kubernetes", "file"}
	coremain.Run()
}
