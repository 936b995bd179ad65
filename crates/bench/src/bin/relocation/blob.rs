//! The Actor with the large state, and the small ones.

use spotlane::Decision;
use spotlane::prelude::*;

/// The large one.
pub const ID: &str = "large";

/// Its state is bytes.
#[derive(Default)]
pub struct Blob {
    state: Bytes,
}

impl Actor for Blob {
    const TYPE: &'static str = "blob";

    fn configure(handlers: &mut Handlers<Self>) {
        handlers.request("size", Self::size);
    }

    async fn on_create(
        &mut self,
        _: &mut Context,
        request: Option<Payload>,
    ) -> Result<Decision, Error> {
        let size = request.map(|size| String::from_utf8_lossy(size.as_bytes()).parse().unwrap());
        // Not zeros, and every page of its own.
        let word = |n: usize| n.wrapping_mul(0x9e37_79b9).to_le_bytes();
        let size: usize = size.unwrap_or_default();
        let mut bytes = Vec::with_capacity(size);
        for n in 0..size / 8 {
            bytes.extend_from_slice(&word(n));
        }
        self.state = bytes.into();
        Ok(Decision::accept())
    }
}

impl Blob {
    #[expect(clippy::unused_async, reason = "a handler")]
    async fn size(&mut self, _: &mut Context, (): ()) -> String {
        self.state.len().to_string()
    }
}

/// Writes and reads a state without copying it.
pub struct Slices;

impl Adapter<Blob> for Slices {
    async fn capture(&self, blob: &mut Blob) -> Result<Bytes, Error> {
        Ok(blob.state.clone())
    }

    async fn restore(&self, blob: &mut Blob, state: Bytes) -> Result<(), Error> {
        blob.state = state;
        Ok(())
    }
}
