//! The stubs of the gRPC peer, made without `protoc`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "net-peers")]
    grpc();
}

#[cfg(feature = "net-peers")]
fn grpc() {
    use tonic_build::manual::{Builder, Method, Service};
    let method = |name: &str, route: &str| {
        Method::builder()
            .name(name)
            .route_name(route)
            .input_type("crate::grpc::Blob")
            .output_type("crate::grpc::Blob")
            .codec_path("tonic_prost::ProstCodec")
    };
    let service = Service::builder()
        .name("Bench")
        .package("bench")
        .method(method("echo", "Echo").build())
        .method(method("sink", "Sink").client_streaming().build())
        .build();
    Builder::new().compile(&[service]);
}
