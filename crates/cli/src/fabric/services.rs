//! `ashlar fabric services`: enclosure services, as text and as pages of SES-3; `locate`: identify LEDs.
//!
//! Must not depend on: the other verbs.

use ashlar_fabric::api::{Call, Element, ElementKind, ElementStatus, Services};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::context::Context;
use crate::failure::Outcome;
use crate::output::{Output, Tone, empty_table};

/// Bytes in a line of a page.
const LINE: usize = 16;

/// What is shown.
#[derive(Args, Debug)]
pub struct ServicesOptions {
    /// Print the diagnostic pages of SES-3 in hexadecimal, as `sg_ses --inhex` reads them
    #[arg(long)]
    pages: bool,
}

/// An identify LED.
#[derive(Args, Debug)]
pub struct LocateOptions {
    /// The bay, from 1
    #[arg(value_name = "SLOT")]
    bay: usize,
    /// Whether its identify LED is on
    #[arg(value_enum)]
    led: Led,
}

#[derive(Clone, Copy, ValueEnum, Debug)]
enum Led {
    On,
    Off,
}

/// Shows enclosure services.
pub async fn show(options: &ServicesOptions, context: &Context<'_>) -> Outcome {
    let services = context.client().services().await?;
    let text = || if options.pages { pages(&services) } else { table(context.output, &services) };
    context.output.result(|| json!(services), text);
    Ok(())
}

/// Turns an identify LED on or off.
pub async fn locate(options: &LocateOptions, context: &Context<'_>) -> Outcome {
    let (bay, on) = (options.bay, matches!(options.led, Led::On));
    context.client().call(&Call::Locate { bay, on }).await?;
    let word = if on { "on" } else { "off" };
    let object = || -> Value { json!({ "bay": bay, "locate": on }) };
    context.output.done(object, || format!("The identify LED of bay {bay} is {word}"));
    Ok(())
}

fn tone(status: ElementStatus) -> Tone {
    match status {
        ElementStatus::Ok => Tone::Good,
        _ => Tone::Bad,
    }
}

fn table(output: &Output, services: &Services) -> String {
    let mut table = empty_table();
    table.set_header(["Element", "Name", "Status", "Value", "LEDs", "Source"]);
    for element in &services.elements {
        let source = if element.recorded { "recorded sample, not measured" } else { "virtual enclosure" };
        table.add_row([
            element.kind.name().to_owned(),
            output.printable(&element.name),
            output.paint(tone(element.status), element.status.name()),
            value(element),
            leds(element),
            source.to_owned(),
        ]);
    }
    format!("{}  {}\n{table}", output.paint(Tone::Folder, &services.name), services.title)
}

fn value(element: &Element) -> String {
    let digits = if element.kind == ElementKind::VoltageSensor { 2 } else { 0 };
    let unit = element.unit.as_deref().unwrap_or_default();
    element.value.map_or(String::new(), |value| format!("{value:.digits$} {unit}"))
}

fn leds(element: &Element) -> String {
    let all = [
        (element.identify, "identify"),
        (element.fault, "fault"),
        (element.predicted_failure, "predicted failure"),
    ];
    all.iter().filter(|l| l.0).map(|l| l.1).collect::<Vec<_>>().join(", ")
}

fn pages(services: &Services) -> String {
    let mut lines = Vec::new();
    for page in &services.pages {
        let recorded = "fans, power supplies and sensors are a recorded sample, not measured";
        lines.push(format!("# {} {}; {recorded}", page.code, page.name));
        let bytes: Vec<&str> = (0..page.hex.len() / 2).map(|i| &page.hex[2 * i..2 * i + 2]).collect();
        lines.extend(bytes.chunks(LINE).map(|line| line.join(" ")));
    }
    lines.join("\n")
}
