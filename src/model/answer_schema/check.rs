//! The check of a value against a schema, and what is said of a value that does not fit.
//!
//! A change must keep that the time of a check, its stack and its reason are bounded, whatever the schema and the value hold: each loop
//! over either takes steps, and a reason never has a whole value in it.

use std::{borrow::Cow, fmt};

use serde_json::{Map, Value};

/// The steps of one check, at most. Holding a schema against a value is one, and further ones are taken for long lists and texts.
const STEPS_MAX: usize = 500_000;
/// How many schemas may stand within each other in one check, references followed.
pub(super) const WITHIN_MAX: usize = 256;
/// How many characters of a value or a name are shown in a reason.
pub(super) const SHOWN_MAX: usize = 60;
/// How many missing names are listed in a reason.
const MISSING_MAX: usize = 10;
/// The longest reason, in bytes.
pub(super) const REASON_BYTES_MAX: usize = 1 << 10;

/// Whether the value fits the schema.
///
/// # Errors
/// Why it does not, with the place.
pub(super) fn check(root: &Value, value: &Value) -> Result<(), String> {
    let mut check = Check { root, steps: STEPS_MAX };
    let mut reason = match check.fits(root, value, 0) {
        Ok(()) => return Ok(()),
        Err(Misfit::TooLarge) => return Err("it is too large to be checked against its schema".to_owned()),
        Err(Misfit::At { place, why }) if place.is_empty() => why,
        Err(Misfit::At { place, why }) => {
            let place: String = place.iter().rev().flat_map(|name| ["/", name]).collect();
            format!("at {place}: {why}")
        }
    };
    if reason.len() > REASON_BYTES_MAX {
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX - "…".len()));
        reason.push('…');
    }
    Err(reason)
}

/// The steps that a check takes.
#[cfg(test)]
pub(super) fn steps(root: &Value, value: &Value) -> usize {
    let mut check = Check { root, steps: STEPS_MAX };
    let _fits_or_not = check.fits(root, value, 0);
    STEPS_MAX - check.steps
}

/// The names of a `type`; an unknown kind of value is one that no type has.
pub(super) fn types(value: &Value) -> impl Iterator<Item = &str> {
    let one = std::slice::from_ref(value);
    value.as_array().map_or(one, Vec::as_slice).iter().map(|name| name.as_str().unwrap_or("?"))
}

pub(super) fn referred<'s>(root: &'s Value, reference: &Value) -> Option<&'s Value> {
    root.pointer(reference.as_str()?.strip_prefix('#')?)
}

/// Why a value does not fit.
enum Misfit {
    /// What is wrong, and where: the names from the inside out.
    At { place: Vec<String>, why: String },
    /// Nothing is known of the value: the check has come to its bound, and ends.
    TooLarge,
}

fn misfit<T>(why: impl Into<String>) -> Result<T, Misfit> {
    Err(Misfit::At { place: Vec::new(), why: why.into() })
}

/// The beginning of a value, for a reason. It costs no more for a large one.
pub(super) fn shown(value: &Value) -> String {
    let mut start = Start(String::new(), SHOWN_MAX);
    // An error is the end of the room.
    match fmt::write(&mut start, format_args!("{value}")) {
        Ok(()) => start.0,
        Err(fmt::Error) => start.0 + "…",
    }
}

/// Takes the first characters that are written, and refuses the rest.
struct Start(String, usize);

impl fmt::Write for Start {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text.chars();
        self.0.extend(rest.by_ref().take(self.1));
        self.1 = SHOWN_MAX - self.0.chars().count();
        if rest.next().is_some() { Err(fmt::Error) } else { Ok(()) }
    }
}

/// The beginning of a name, for a reason.
pub(super) fn clipped(name: &str) -> Cow<'_, str> {
    match name.char_indices().nth(SHOWN_MAX) {
        Some((cut, _)) => format!("{}…", &name[..cut]).into(),
        None => name.into(),
    }
}

/// How much a comparison with this value of a schema may cost.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => 1 + text.len() / 64,
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Object(fields) => 1 + fields.iter().map(|(name, of)| 1 + name.len() / 64 + size(of)).sum::<usize>(),
        _ => 1,
    }
}

/// One check, and what is left of its bound.
struct Check<'s> {
    root: &'s Value,
    steps: usize,
}

impl<'s> Check<'s> {
    /// Takes steps for work of this size. Comparing a few short values costs no more than the step before it.
    fn take(&mut self, size: usize) -> Result<(), Misfit> {
        self.steps = self.steps.checked_sub(size / 16).ok_or(Misfit::TooLarge)?;
        Ok(())
    }

    fn fits(&mut self, schema: &'s Value, value: &Value, within: usize) -> Result<(), Misfit> {
        self.steps = self.steps.checked_sub(1).filter(|_| within < WITHIN_MAX).ok_or(Misfit::TooLarge)?;
        let fields = match schema {
            Value::Object(fields) => fields,
            Value::Bool(false) => return misfit(format!("{} is not allowed here", shown(value))),
            _ => return Ok(()),
        };
        let within = within + 1;
        for word in ["$ref", "type", "enum", "const", "required"] {
            self.take(fields.get(word).map_or(0, size))?;
        }
        if let Some(kinds) = fields.get("type")
            && !types(kinds).any(|kind| is(kind, value))
        {
            let kinds = types(kinds).collect::<Vec<_>>().join(" or ");
            return misfit(format!("{} is no {kinds}", shown(value)));
        }
        if fields.get("enum").and_then(Value::as_array).is_some_and(|choices| !choices.contains(value)) {
            return misfit(format!("{} is none of {}", shown(value), shown(&fields["enum"])));
        }
        if fields.get("const").is_some_and(|only| only != value) {
            return misfit(format!("{} is not {}", shown(value), shown(&fields["const"])));
        }
        if let Some(target) = fields.get("$ref").and_then(|reference| referred(self.root, reference)) {
            self.fits(target, value, within)?;
        }
        for schema in fields.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.fits(schema, value, within)?;
        }
        for (word, most) in [("anyOf", usize::MAX), ("oneOf", 1)] {
            let Some(choices) = fields.get(word).and_then(Value::as_array) else { continue };
            let mut fits = 0;
            for schema in choices {
                match self.fits(schema, value, within) {
                    Ok(()) => fits += 1,
                    Err(Misfit::At { .. }) => {}
                    // A choice that could not be checked may fit.
                    Err(Misfit::TooLarge) => return Err(Misfit::TooLarge),
                }
            }
            if fits == 0 || fits > most {
                return misfit(format!("{} fits {fits} of the {} choices of {word}", shown(value), choices.len()));
            }
        }
        match value {
            Value::Number(number) => numbers(fields, number.as_f64().unwrap_or(f64::NAN)),
            Value::String(text) if fields.contains_key("minLength") || fields.contains_key("maxLength") => {
                self.take(text.len() / 64)?;
                counts(fields, ["minLength", "maxLength"], text.chars().count(), "characters")
            }
            Value::Array(items) => {
                counts(fields, ["minItems", "maxItems"], items.len(), "items")?;
                let Some(schema) = fields.get("items") else { return Ok(()) };
                let mut all = items.iter().enumerate();
                all.try_for_each(|(n, item)| {
                    self.fits(schema, item, within).map_err(|fault| under(&n.to_string(), fault))
                })
            }
            Value::Object(inner) => self.object(fields, inner, within),
            _ => Ok(()),
        }
    }

    fn object(
        &mut self,
        schema: &'s Map<String, Value>,
        value: &Map<String, Value>,
        within: usize,
    ) -> Result<(), Misfit> {
        let names = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let missing: Vec<&str> = names.filter(|name| !value.contains_key(*name)).collect();
        if !missing.is_empty() {
            let listed: Vec<_> = missing.iter().take(MISSING_MAX).map(|name| clipped(name)).collect();
            let more = match missing.len().checked_sub(MISSING_MAX) {
                None | Some(0) => String::new(),
                Some(more) => format!(" and {more} more"),
            };
            return misfit(format!("the required {}{more} is missing", listed.join(", ")));
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties");
        if properties.is_none() && others.is_none() {
            return Ok(());
        }
        self.take(value.keys().map(|name| 1 + name.len() / 64).sum())?;
        for (name, inner) in value {
            let of = properties.and_then(|properties| properties.get(name));
            match of.or(others) {
                Some(Value::Bool(false)) if of.is_none() => {
                    return misfit(format!("it has no field {:?} to fill", clipped(name)));
                }
                Some(schema) => self.fits(schema, inner, within).map_err(|fault| under(name, fault))?,
                None => {}
            }
        }
        Ok(())
    }
}

/// The misfit of a value, as one of the value that has it under this name.
fn under(name: &str, fault: Misfit) -> Misfit {
    match fault {
        Misfit::At { mut place, why } => {
            place.push(clipped(name).replace('~', "~0").replace('/', "~1"));
            Misfit::At { place, why }
        }
        Misfit::TooLarge => Misfit::TooLarge,
    }
}

fn is(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        // 1.0 is an integer of JSON Schema.
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "boolean" => value.is_boolean(),
        _ => value.is_null(),
    }
}

/// Whether a number keeps a bound.
type Fits = fn(f64, f64) -> bool;

fn numbers(schema: &Map<String, Value>, number: f64) -> Result<(), Misfit> {
    let bound = |word: &str| schema.get(word).and_then(Value::as_f64);
    let fails = |word: &str, fits: Fits| bound(word).filter(|bound| !fits(number, *bound));
    let all: [(&str, Fits, &str); 4] = [
        ("minimum", |number, bound| number >= bound, "at least"),
        ("maximum", |number, bound| number <= bound, "at most"),
        ("exclusiveMinimum", |number, bound| number > bound, "more than"),
        ("exclusiveMaximum", |number, bound| number < bound, "less than"),
    ];
    let failed = all.into_iter().find_map(|(word, fits, words)| Some((fails(word, fits)?, words)));
    failed.map_or(Ok(()), |(bound, words)| misfit(format!("{number} must be {words} {bound}")))
}

fn counts(schema: &Map<String, Value>, words: [&str; 2], count: usize, of: &str) -> Result<(), Misfit> {
    let [least, most] = words.map(|word| schema.get(word).and_then(Value::as_u64));
    let count = count as u64;
    match (least, most) {
        (Some(least), _) if count < least => misfit(format!("it has {count} {of}, and must have at least {least}")),
        (_, Some(most)) if count > most => misfit(format!("it has {count} {of}, and may have at most {most}")),
        _ => Ok(()),
    }
}
