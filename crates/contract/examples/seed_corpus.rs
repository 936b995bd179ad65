//! Writes the first inputs of the fuzz corpus: one valid value of every command and type.
//!
//! `cargo run -p spotlane-contract --example seed_corpus -- fixtures/corpus`

use std::error::Error;
use std::fs;
use std::path::Path;

use spotlane_contract::{Contract, Generator};
use spotlane_types::kind::MeshOperationKind;

const STREAMS: u64 = 12;

fn main() -> Result<(), Box<dyn Error>> {
    let corpus = std::env::args()
        .nth(1)
        .ok_or("give the folder of the corpus")?;
    let corpus = Path::new(&corpus);
    let judge = Contract::parse(&fs::read_to_string(
        "fixtures/contract/service-wire.contract",
    )?)?;
    let write = |target: &str, name: &str, bytes: &[u8]| -> Result<(), Box<dyn Error>> {
        let folder = corpus.join(target);
        fs::create_dir_all(&folder)?;
        Ok(fs::write(folder.join(name.replace(':', "-")), bytes)?)
    };
    let mut generator = Generator::new(&judge, 7);
    for id in judge.command_ids() {
        let record = generator.record(id).ok_or("no value")?;
        let pending = record.pending.as_deref().unwrap_or("none");
        let kind = MeshOperationKind::from_name(pending).ok_or("no such operation kind")?;
        let place = MeshOperationKind::ALL
            .iter()
            .position(|k| *k == kind)
            .ok_or("unlisted")?;
        let mut bytes = vec![u8::try_from(place)?];
        for frame in judge.encode_record(&record.value, record.pending.as_deref())? {
            bytes.extend_from_slice(&u16::try_from(frame.len())?.to_be_bytes());
            bytes.extend_from_slice(&frame);
        }
        write("record", &format!("command-{id}"), &bytes)?;
    }
    for (which, named) in (0_u8..).zip(spotlane_wire::by_name::all()) {
        let name = named.name();
        let value = generator.standalone(&name).ok_or("no value")?;
        let mut bytes = vec![which];
        bytes.extend(judge.encode_type(&name, &value)?);
        write("value", &name, &bytes)?;
    }
    let formats = [
        "authority-payload-v1",
        "instance-activation-recovery-v1",
        "relocation-data-chunk-v1",
        "relocation-manifest-v1",
    ];
    for (which, name) in (0_u8..).zip(formats) {
        for seed in 0..STREAMS {
            let name = format!("durable:{name}");
            let value = Generator::new(&judge, seed)
                .standalone(&name)
                .ok_or("no value")?;
            let mut bytes = vec![which];
            bytes.extend(judge.encode_type(&name, &value)?);
            write("durable", &format!("{name}-{seed}"), &bytes)?;
        }
    }
    for seed in 0..STREAMS {
        let name = "relocation-envelope-v1";
        let value = Generator::new(&judge, seed)
            .standalone(name)
            .ok_or("no value")?;
        let mut bytes = vec![u8::try_from(seed * 7 + 1)?];
        bytes.extend(judge.encode_type(name, &value)?);
        write("envelope", &format!("stream-{seed}"), &bytes)?;
    }
    Ok(())
}
