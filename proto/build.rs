//! Compiles the protocol files without a `protoc` on the machine.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = ["sidewire/v1/fabric.proto", "sidewire/v1/session.proto", "sidewire/v1/admin.proto", "sidewire/v1/cluster.proto"];
    for file in files {
        println!("cargo:rerun-if-changed=proto/{file}");
    }
    let descriptors = protox::compile(files, ["proto"])?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
