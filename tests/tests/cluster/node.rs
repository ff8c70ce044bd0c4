//! The cluster itself, before anything of ours is installed.

use anyhow::Result;

use crate::stage::Stage;

pub(crate) fn a_deployment_answers_by_its_service(stage: &Stage) -> Result<()> {
    let plain = stage.cluster()?.namespace("node", &[])?;
    plain.apply(include_str!("node.yaml"))?;
    plain.wait_until_available("web")?;
    plain.wait_for("condition=Ready", "pod/client")?;
    plain.wait_until_service_answers("web", 80)?;

    assert_eq!(plain.pods("app=web")?.len(), 2);
    let page = plain.exec("client", "client", &["wget", "-q", "-O", "-", "http://web/"])?;
    assert_eq!(page, "hello\n");
    plain.delete()
}
