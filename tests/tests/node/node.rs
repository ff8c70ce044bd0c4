//! The cluster itself, before anything of ours is installed.

use anyhow::Result;

use crate::fixture::Fixture;

pub(crate) fn deployment_answers_through_its_service(fixture: &Fixture) -> Result<()> {
    let plain = fixture.cluster().namespace("node", &[])?;
    plain.apply(include_str!("node.yaml"))?;
    plain.wait_until_available("web")?;
    plain.wait_for("condition=Ready", "pod/client")?;
    plain.wait_until_service_answers("web", 80)?;

    assert_eq!(plain.pods("app=web")?.len(), 2);
    let page = plain.exec("client", "client", &["wget", "-q", "-O", "-", "http://web/"])?;
    assert_eq!(page, "hello\n");
    plain.delete()
}
