//! The cluster's DNS server: `CoreDNS`.

use anyhow::Result;

use crate::http;
use crate::identity::{Identity, Server};
use crate::port::free_port;
use crate::process::Process;
use crate::programs::Programs;
use crate::run_folder::RunFolder;

/// A running `CoreDNS`, on port 53 of the node's address.
#[derive(Debug)]
pub(crate) struct Dns {
    process: Process,
}

impl Dns {
    /// Starts `CoreDNS` and waits until it has read the Services of the API server.
    pub(crate) fn start(folder: &RunFolder, programs: &Programs, server: &Server) -> Result<Self> {
        let ready_port = free_port()?;
        let kubeconfig = Identity::Admin.kubeconfig(folder, server)?;
        let outside = folder.write("outside.zone", OUTSIDE)?;
        // As kubeadm writes it, without the cache, which would hide a new Service for a while.
        let corefile = format!(
            "cluster.local:53 in-addr.arpa:53 ip6.arpa:53 {{\n\
                 bind {address}\n\
                 ready 127.0.0.1:{ready_port}\n\
                 errors\n\
                 kubernetes {{\n\
                     kubeconfig {kubeconfig}\n\
                     pods insecure\n\
                 }}\n\
             }}\n\
             .:53 {{\n\
                 bind {address}\n\
                 errors\n\
                 file {outside}\n\
             }}\n",
            address = server.address,
            kubeconfig = kubeconfig.display(),
            outside = outside.display(),
        );
        let corefile = folder.write("Corefile", corefile)?;
        let args = ["-conf".as_ref(), corefile.as_os_str()];
        let mut process = Process::start(folder, "coredns", &programs.coredns()?, args)?;
        process.wait_until("CoreDNS has read the Services", || {
            http::get(([127, 0, 0, 1], ready_port).into(), "/ready")?.expect_ok()
        })?;
        Ok(Self { process })
    }

    pub(crate) fn stop(&mut self) -> Result<()> {
        self.process.stop()
    }
}

/// Names outside of the cluster. The node asks no other name server.
const OUTSIDE: &str = "\
$TTL 5
@ SOA ns.example. admin.example. 1 60 60 60 5
@ NS ns.example.
www.example. A 198.51.100.7
www.example. A 198.51.100.8
www.example. AAAA 2001:db8::7
www.example. MX 10 mail.example.
www.example. TXT \"a text\"
four.example. A 198.51.100.4
alias.example. CNAME www.example.
";
