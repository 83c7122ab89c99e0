//! A plot as SVG: two axes, lines, and marks across it.

use std::fmt::Write;

/// The drawing's size, and what its frame leaves out at each side, in its own units.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 110.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 46.0;
/// Colours of lines, by class.
pub const COLOURS: usize = 8;

/// How values lie on an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// Each power of ten as long as any other.
    Log,
}

/// One axis.
#[derive(Debug, Clone)]
pub struct Axis {
    /// What it shows.
    pub label: &'static str,
    /// How values lie on it.
    pub scale: Scale,
    /// Its ends.
    pub from: f64,
    /// Its ends.
    pub to: f64,
    /// Where it is marked, and with what.
    pub ticks: Vec<(f64, String)>,
}

/// A line.
#[derive(Debug, Clone)]
pub struct Series {
    /// What it is, for the legend.
    pub name: String,
    /// Its points.
    pub points: Vec<(f64, f64)>,
    /// Its colour.
    pub colour: usize,
    /// Whether it is drawn in dashes.
    pub dashed: bool,
}

/// A mark across the plot.
#[derive(Debug, Clone)]
pub struct Mark {
    /// What it is.
    pub name: String,
    /// Where it crosses its axis.
    pub at: f64,
    /// Whether it goes up, or to the side.
    pub upright: bool,
}

/// All of it.
#[derive(Debug, Clone)]
pub struct Plot {
    /// For those who cannot see it.
    pub title: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// The lines.
    pub series: Vec<Series>,
    /// The marks.
    pub marks: Vec<Mark>,
}

/// Text that is safe between tags and in attributes.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

impl Axis {
    /// Even steps of a round size from 0 to a little above `max`.
    pub fn linear(label: &'static str, max: f64, name: impl Fn(f64) -> String) -> Self {
        let max = if max > 0.0 { max } else { 1.0 };
        let rough = max / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough).unwrap_or(rough);
        let count = (max / step).ceil() as u32;
        let ticks = (0..=count).map(|at| (f64::from(at) * step, name(f64::from(at) * step))).collect();
        Self { label, scale: Scale::Linear, from: 0.0, to: f64::from(count) * step, ticks }
    }

    /// Whole powers of ten around `min` and `max`.
    pub fn log(label: &'static str, min: f64, max: f64, name: impl Fn(f64) -> String) -> Self {
        let (first, last) = (min.max(1.0).log10().floor() as i32, max.max(10.0).log10().ceil() as i32);
        let last = last.max(first + 1);
        let ticks = (first..=last).map(|power| (10f64.powi(power), name(10f64.powi(power)))).collect();
        Self { label, scale: Scale::Log, from: 10f64.powi(first), to: 10f64.powi(last), ticks }
    }

    /// Where a value lies, from 0 to 1.
    fn place(&self, value: f64) -> f64 {
        let place = match self.scale {
            Scale::Linear => (value - self.from) / (self.to - self.from),
            Scale::Log => (value.max(self.from) / self.from).ln() / (self.to / self.from).ln(),
        };
        place.clamp(0.0, 1.0)
    }
}

impl Plot {
    fn x(&self, value: f64) -> f64 {
        LEFT + self.x.place(value) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.y.place(value) * (HEIGHT - TOP - BOTTOM)
    }

    /// The drawing and its legend.
    pub fn svg(&self) -> String {
        let mut out = String::new();
        let title = escape(&self.title);
        // Writing into a string cannot fail.
        let _ = write!(out, "<figure><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">");
        self.axes(&mut out);
        for mark in &self.marks {
            self.mark(&mut out, mark);
        }
        for series in &self.series {
            self.line(&mut out, series);
        }
        out += "</svg><figcaption>";
        for series in &self.series {
            let dashed = if series.dashed { " dashed" } else { "" };
            let _ = write!(out, "<span class=\"key k{}{dashed}\">{}</span>", series.colour % COLOURS, escape(&series.name));
        }
        out += "</figcaption></figure>";
        out
    }

    fn axes(&self, out: &mut String) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for (value, name) in &self.y.ticks {
            let y = self.y(*value);
            let _ = write!(out, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
            let _ = write!(
                out,
                "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                y + 4.0,
                escape(name)
            );
        }
        for (value, name) in &self.x.ticks {
            let x = self.x(*value);
            let _ = write!(out, "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>");
            let _ = write!(
                out,
                "<text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 16.0,
                escape(name)
            );
        }
        let (middle, half) = ((LEFT + right) / 2.0, (TOP + bottom) / 2.0);
        let _ = write!(
            out,
            "<text class=\"label\" x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            HEIGHT - 8.0,
            self.x.label
        );
        let _ = write!(
            out,
            "<text class=\"label\" transform=\"translate(14 {half}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            self.y.label
        );
    }

    fn line(&self, out: &mut String, series: &Series) {
        let points: Vec<_> = series.points.iter().map(|(x, y)| format!("{:.1},{:.1}", self.x(*x), self.y(*y))).collect();
        let dashed = if series.dashed { " dashed" } else { "" };
        let _ = write!(out, "<polyline class=\"line c{}{dashed}\" points=\"{}\"/>", series.colour % COLOURS, points.join(" "));
    }

    fn mark(&self, out: &mut String, mark: &Mark) {
        let name = escape(&mark.name);
        if mark.upright {
            let (x, bottom) = (self.x(mark.at), HEIGHT - BOTTOM);
            let _ = write!(out, "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>");
            let _ =
                write!(out, "<text class=\"marked\" x=\"{:.1}\" y=\"{}\" text-anchor=\"end\">{name}</text>", x - 4.0, TOP + 12.0);
        } else {
            let (y, right) = (self.y(mark.at), WIDTH - RIGHT);
            let _ = write!(out, "<line class=\"mark\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
            let _ = write!(
                out,
                "<text class=\"marked\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>",
                right - 4.0,
                y - 4.0
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_figures() {
        let linear = Axis::linear("", 8_300.0, |value| value.to_string());
        assert_eq!((linear.to, linear.ticks.len()), (10_000.0, 6));
        assert_eq!(linear.place(2_500.0), 0.25);
        let log = Axis::log("", 250.0, 31_000.0, |value| value.to_string());
        assert_eq!((log.from, log.to, log.ticks.len()), (100.0, 100_000.0, 4));
        assert!((log.place(1_000.0) - 1.0 / 3.0).abs() < 1e-9 && log.place(1.0) == 0.0 && log.place(1e9) == 1.0);
        assert!(Axis::linear("", 0.0, |value| value.to_string()).to > 0.0);
    }

    #[test]
    fn names_cannot_end_a_tag() {
        let axis = Axis::linear("x", 1.0, |value| value.to_string());
        let series = Series { name: "<b>&\"".into(), points: vec![(0.0, 0.0), (1.0, 1.0)], colour: 9, dashed: true };
        let svg = Plot { title: "\"t<".into(), x: axis.clone(), y: axis, series: vec![series], marks: Vec::new() }.svg();
        assert!(svg.contains("&lt;b&gt;&amp;&quot;") && !svg.contains("<b>") && svg.contains("k1 dashed"), "{svg}");
        assert!(svg.contains("points=\"110.0,294.0 744.0,16.0\""), "{svg}");
    }
}
