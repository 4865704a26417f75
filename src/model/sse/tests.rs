//! V09, V14: the decoder against cuts at every byte, and against two other decoders.

#![allow(clippy::unwrap_used, clippy::panic)]

use bytes::Bytes;
use futures_util::StreamExt as _;
use proptest::prelude::*;

use super::*;

fn decode(chunks: &[&[u8]]) -> Vec<Event> {
    let mut decoder = Decoder::new(1 << 20);
    chunks.iter().flat_map(|chunk| decoder.push(chunk).unwrap()).collect()
}

fn event(name: &str, data: &str) -> Event {
    Event { name: name.into(), data: data.into(), id: None }
}

/// V09
#[test]
fn all_three_line_ends_give_the_same_events() {
    let expected = vec![event("a", "1\n2"), event("", "ü")];
    for end in ["\n", "\r", "\r\n"] {
        let text = "event: a\ndata: 1\ndata:2\n\n: a comment\ndata: ü\nunknown: x\n\n".replace('\n', end);
        assert_eq!(decode(&[text.as_bytes()]), expected, "{end:?}");
    }
}

/// V09
#[test]
fn a_carriage_return_ends_an_event_without_waiting_for_the_next_byte() {
    let mut decoder = Decoder::new(100);
    assert_eq!(decoder.push(b"data: x\r\r").unwrap(), vec![event("", "x")]);
    assert_eq!(decoder.push(b"\ndata: y\r\n\r").unwrap(), vec![event("", "y")]);
    assert_eq!(decoder.push(b"\n\n\n").unwrap(), vec![]);
}

/// V08
#[test]
fn a_byte_order_mark_is_dropped_at_the_start_only() {
    assert_eq!(decode(&[b"\xef", b"\xbb\xbfda", b"ta: x\n\n"]), vec![event("", "x")]);
    assert_eq!(decode(&[b"data: \xef\xbb\xbfx\n\n"]), vec![event("", "\u{feff}x")]);
}

#[test]
fn an_event_without_data_is_none_and_an_empty_one_is_one() {
    assert_eq!(decode(&[b"event: ping\n\ndata\n\ndata:\ndata:\n\n"]), vec![event("", ""), event("", "\n")]);
}

/// V09: an id holds until another one comes, and an empty one ends it; a time that is no number changes nothing.
#[test]
fn an_event_has_the_newest_id_and_the_stream_its_retry() {
    let mut decoder = Decoder::new(4_096);
    let long = "x".repeat(1_025);
    let text = format!("id: a\nretry: 500\ndata:\n\nretry: 1x\ndata: 1\n\nid: {long}\ndata: 2\n\nid\ndata: 3\n\n");
    let events = decoder.push(text.as_bytes()).unwrap();
    let ids: Vec<_> = events.iter().map(|event| (event.data.as_str(), event.id.as_deref())).collect();
    assert_eq!(ids, [("", Some("a")), ("1", Some("a")), ("2", Some("a")), ("3", None)]);
    assert_eq!(decoder.retry, Some(std::time::Duration::from_millis(500)));
}

/// V09
#[test]
fn the_last_event_may_lack_its_empty_line() {
    for text in ["data: [DONE]", "data: [DONE]\n", "data: [DONE]\r"] {
        let mut decoder = Decoder::new(100);
        assert_eq!(decoder.push(text.as_bytes()).unwrap(), vec![]);
        assert_eq!(decoder.finish(), Some(event("", "[DONE]")), "{text:?}");
        assert_eq!(decoder.finish(), None);
    }
}

/// V14
#[test]
fn an_event_over_the_bound_is_refused_and_one_at_the_bound_is_not() {
    let mut decoder = Decoder::new(10);
    assert_eq!(decoder.push(b"data: 4444\n\n").unwrap(), vec![event("", "4444")]);
    assert_eq!(decoder.push(b"data: 55555\n\n"), Err(EventTooLarge { bytes_max: 10 }));
    let mut decoder = Decoder::new(10);
    let endless: Result<Vec<_>, _> = (0..100).map(|_| decoder.push(b"data:1\n")).collect();
    assert_eq!(endless, Err(EventTooLarge { bytes_max: 10 }));
}

#[test]
fn broken_utf8_is_replaced_and_never_fatal() {
    assert_eq!(decode(&[b"data: a\xffb\n\n"]), vec![event("", "a\u{fffd}b")]);
}

/// The pieces that streams are made of, weighted towards the odd ones.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just("data: {\"a\":\"ü€😀\"}".to_owned()),
        Just("data:".to_owned()),
        Just("data".to_owned()),
        Just("event: delta".to_owned()),
        Just(": comment".to_owned()),
        Just("id: 7".to_owned()),
        Just("x: y".to_owned()),
        Just(String::new()),
        "[a-zé:]{0,12}".prop_map(|text| format!("data: {text}")),
    ];
    let end = prop_oneof![Just("\n"), Just("\r\n"), Just("\r")];
    prop::collection::vec((piece, end), 0..40)
        .prop_map(|lines| lines.into_iter().flat_map(|(line, end)| (line + end).into_bytes()).collect())
}

fn cut(bytes: &[u8], cuts: &[usize]) -> Vec<Bytes> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| Bytes::copy_from_slice(&bytes[pair[0]..pair[1]])).collect()
}

fn with_sseer(chunks: Vec<Bytes>) -> Vec<Event> {
    let chunks = futures_util::stream::iter(chunks.into_iter().map(Ok::<_, std::convert::Infallible>));
    let events = sseer::event_stream::EventStream::new(chunks).map(|event| {
        let event = event.unwrap();
        Event { name: event.event.to_string(), data: event.data.to_string(), id: None }
    });
    futures_util::FutureExt::now_or_never(events.collect()).unwrap()
}

fn with_eventsource_stream(chunks: Vec<Bytes>) -> Vec<Event> {
    use eventsource_stream::Eventsource as _;
    let chunks = futures_util::stream::iter(chunks.into_iter().map(Ok::<_, std::convert::Infallible>));
    let events = chunks.eventsource().map(|event| {
        let event = event.unwrap();
        Event { name: event.event, data: event.data, id: None }
    });
    futures_util::FutureExt::now_or_never(events.collect()).unwrap()
}

/// The others name an event without a name "message", and are not asked for ids.
fn as_the_others(mut events: Vec<Event>) -> Vec<Event> {
    events.iter_mut().for_each(|event| event.id = None);
    events.iter_mut().filter(|event| event.name.is_empty()).for_each(|event| event.name = "message".into());
    events
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// V09: wherever the stream is cut into chunks, the events are the same.
    #[test]
    fn cuts_change_nothing(bytes in stream(), cuts in prop::collection::vec(any::<usize>(), 0..30)) {
        let whole = decode(&[&bytes]);
        let chunks = cut(&bytes, &cuts);
        let chunks: Vec<&[u8]> = chunks.iter().map(AsRef::as_ref).collect();
        prop_assert_eq!(decode(&chunks), whole.clone());
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(decode(&single), whole);
    }

    /// V09: two other decoders read the same events.
    #[test]
    fn others_agree(bytes in stream(), cuts in prop::collection::vec(any::<usize>(), 0..10)) {
        // eventsource-stream waits after a CR for the byte behind it, for ever at the end.
        let bytes = [&bytes[..], b": end\n"].concat();
        let ours = as_the_others(decode(&[&bytes]));
        prop_assert_eq!(&with_sseer(cut(&bytes, &cuts)), &ours, "sseer");
        // This one drops events whose data is empty; the standard drops only those without any data line.
        let not_empty: Vec<Event> = ours.into_iter().filter(|event| !event.data.is_empty()).collect();
        let theirs = with_eventsource_stream(cut(&bytes, &cuts)).into_iter().filter(|event| !event.data.is_empty());
        prop_assert_eq!(theirs.collect::<Vec<_>>(), not_empty, "eventsource-stream");
    }

    /// Any bytes at all: no panic, and nothing kept beyond the bound.
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut decoder = Decoder::new(64);
        for chunk in bytes.chunks(7) {
            if decoder.push(chunk).is_err() {
                break;
            }
            prop_assert!(decoder.line.len() + decoder.event.data.len() <= 3 * 64);
        }
        decoder.finish();
    }
}
