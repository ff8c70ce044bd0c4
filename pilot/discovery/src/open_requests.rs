//! Requests that a connection has open, to close connections without one.

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http_body_util::BodyExt as _;
use tokio::sync::watch;
use tokio::time::timeout;

/// Requests that a connection has open.
#[derive(Debug)]
pub(crate) struct OpenRequests(watch::Sender<usize>);

/// Request that is open until its response has been sent.
#[derive(Debug)]
pub(crate) struct OpenRequest(watch::Sender<usize>);

impl OpenRequests {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    pub(crate) fn open(&self) -> OpenRequest {
        self.0.send_modify(|open| *open += 1);
        OpenRequest(self.0.clone())
    }

    /// Waits until a connection is of no use: its client has sent no request in time. A request
    /// that ends at once counts too, so the changes decide, and not the last number.
    pub(crate) async fn unused(&self) {
        let mut open = self.0.subscribe();
        let mut limit = FIRST_REQUEST;
        // The sender lives as long as the receiver, so no wait fails.
        loop {
            if *open.borrow_and_update() > 0 {
                let _ = open.changed().await;
            } else if timeout(limit, open.changed()).await.is_err() {
                return;
            }
            limit = NEXT_REQUEST;
        }
    }
}

impl OpenRequest {
    /// Keeps the request open until the body of its response ends.
    pub(crate) fn until_sent(self, response: Response) -> Response {
        response.map(|body| {
            Body::new(body.map_frame(move |frame| {
                let _open = &self;
                frame
            }))
        })
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

/// Time for the first request after the handshake.
const FIRST_REQUEST: Duration = Duration::from_secs(10);
/// Time between two requests of HTTP/2. Idle connections of HTTP/1 end earlier, by the time for a
/// head.
const NEXT_REQUEST: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    /// Seconds after which the connection is of no use.
    async fn unused_after(requests: &OpenRequests) -> u64 {
        let begin = Instant::now();
        requests.unused().await;
        begin.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn connection_without_a_request_is_unused() {
        assert_eq!(unused_after(&OpenRequests::new()).await, FIRST_REQUEST.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn request_that_ends_at_once_keeps_its_connection() {
        let requests = OpenRequests::new();
        let (seconds, ()) = tokio::join!(unused_after(&requests), async { drop(requests.open()) });
        assert_eq!(seconds, NEXT_REQUEST.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn open_request_keeps_its_connection() {
        let requests = OpenRequests::new();
        let response = requests.open().until_sent(Response::new(Body::from("text")));
        let sent = async move {
            tokio::time::sleep(Duration::from_secs(1_000)).await;
            drop(response);
        };
        let (seconds, ()) = tokio::join!(unused_after(&requests), sent);
        assert_eq!(seconds, 1_000 + NEXT_REQUEST.as_secs());
    }
}
