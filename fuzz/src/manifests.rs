//! Files for `istioctl kube-inject`.

use injector::manifest::{Document, Manifest};
use istioctl::{Streams, run};

/// Fuzzes the text of a file.
pub fn manifest(data: &[u8]) {
    let Some(injected) = kube_inject(data) else { return };
    let text = std::str::from_utf8(data).expect("only text is injected");
    let documents = Document::split(text);
    let whole: String = documents.iter().map(|document| document.text).collect();
    assert_eq!(whole, text, "the documents are not the file");
    let has_no_pods = |document| Manifest::read(document).is_ok_and(|it| it.pods().is_empty());
    if documents.iter().all(has_no_pods) {
        assert_eq!(injected, data, "a file without pods is changed");
    }
    let again = kube_inject(&injected).expect("an injected file is injected again");
    assert_eq!(
        String::from_utf8_lossy(&again),
        String::from_utf8_lossy(&injected),
        "a second injection changes the file"
    );
}

fn kube_inject(mut input: &[u8]) -> Option<Vec<u8>> {
    let (mut output, mut messages) = (Vec::new(), Vec::new());
    let mut streams = Streams::new(&mut input, &mut output, &mut messages);
    let words = ["istioctl", "kube-inject", "-f", "-"].map(Into::into);
    let code = run(words, &mut streams);
    if code == std::process::ExitCode::SUCCESS {
        return Some(output);
    }
    assert!(output.is_empty(), "a failure leaves half an output");
    let messages = String::from_utf8_lossy(&messages);
    assert!(messages.lines().any(|line| line.starts_with("error: ")), "{messages}");
    None
}
