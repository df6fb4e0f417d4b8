//! The body of an answer that may be cut: it then ends with an error, so that a part of it
//! is not taken for all of it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::body::HttpBody;
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Frame, SizeHint};

/// Whether a connection was cut.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cut(Arc<AtomicBool>);

impl Cut {
    pub(crate) fn make(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_made(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A body that comes over a connection that may be cut.
pub(crate) struct Whole {
    inner: UnsyncBoxBody<Bytes, hyper::Error>,
    cut: Cut,
}

impl Whole {
    pub(crate) fn new<Inner>(inner: Inner, cut: Cut) -> Self
    where
        Inner: HttpBody<Data = Bytes, Error = hyper::Error> + Send + 'static,
    {
        Self { inner: UnsyncBoxBody::new(inner), cut }
    }
}

impl HttpBody for Whole {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match Pin::new(&mut self.inner).poll_frame(context) {
            Poll::Ready(None) if self.cut.is_made() => {
                Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into())))
            }
            Poll::Ready(frame) => Poll::Ready(frame.map(|frame| frame.map_err(io::Error::other))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, StreamBody};

    use super::*;

    fn body() -> impl HttpBody<Data = Bytes, Error = hyper::Error> + Send + 'static {
        let frames = [Ok(Frame::data(Bytes::from_static(b"part")))];
        StreamBody::new(futures_util::stream::iter(frames))
    }

    #[tokio::test]
    async fn what_was_cut_does_not_end_well() {
        let whole = Whole::new(body(), Cut::default());
        assert_eq!(whole.collect().await.unwrap().to_bytes(), "part");
        let cut = Cut::default();
        cut.make();
        assert!(Whole::new(body(), cut).collect().await.is_err());
    }
}
