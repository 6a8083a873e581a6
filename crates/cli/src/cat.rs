//! `ashlar cat`: prints objects to the standard output.

use ashlar_client::GetOptions;
use clap::Args;

use super::{
    context::{Context, each},
    failure::{Outcome, While},
    location::Location,
};

/// What to print.
#[derive(Args, Debug)]
pub struct Options {
    /// ALIAS/BUCKET/KEY; also local files
    #[arg(required = true)]
    targets: Vec<String>,
    /// This version
    #[arg(long, visible_alias = "vid")]
    version_id: Option<String>,
    /// Start at this byte
    #[arg(long, default_value_t = 0)]
    offset: u64,
}

/// Prints the objects.
pub async fn run(options: &Options, context: &Context) -> Outcome {
    each(context, &options.targets, |target| async move {
        match Location::parse(target, &context.aliases)? {
            Location::Local(file) => {
                local(&file, options.offset, context).when(|| format!("cannot read {}", file.display()))
            }
            Location::Remote(remote) => {
                remote.need_key()?;
                let get = GetOptions {
                    version_id: options.version_id.clone(),
                    range: (options.offset > 0).then_some((options.offset, None)),
                    ..GetOptions::default()
                };
                let print = async {
                    let mut object = remote.client.get_object(&remote.bucket, &remote.key, &get).await?;
                    while let Some(piece) = object.body.piece().await? {
                        context.output.bytes(&piece);
                    }
                    Outcome::Ok(())
                };
                print.await.when(|| format!("cannot read `{remote}`"))
            }
        }
    })
    .await
}

fn local(file: &std::path::Path, offset: u64, context: &Context) -> Outcome {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = std::fs::File::open(file)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut buffer = vec![0; 256 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(()),
            n => context.output.bytes(&buffer[..n]),
        }
    }
}
