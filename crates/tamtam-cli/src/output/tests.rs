//! The queue of pieces: who waits for whom, and in which order they are given.

use super::*;

fn output() -> Output {
    Output { shared: Arc::default() }
}

fn piece(bytes: usize) -> Show {
    Show::Out("x".repeat(bytes))
}

/// `show` waits for a reader, `put` does not, and the bytes of `put` count too.
#[tokio::test(start_paused = true)]
async fn who_shows_waits_for_room_and_who_answers_does_not() {
    let output = output();
    output.show(piece(BYTES_MAX)).await;
    let showing = tokio::time::timeout(Duration::from_secs(3600), output.show(piece(1)));
    assert!(showing.await.is_err(), "there was no room");
    for _ in 0..3 {
        output.put(piece(BYTES_MAX));
    }
    assert_eq!(output.shared.queue().bytes, 4 * BYTES_MAX);
    let asking = tokio::time::timeout(Duration::from_secs(3600), output.room_for_answers());
    assert!(asking.await.is_err(), "more would be asked than is read");
    output.shared.write(&"x".repeat(2 * CHUNK_BYTES), &mut std::io::sink()).unwrap_or_default();
    output.room_for_answers().await;
}

/// Without a stop, a reader that takes nothing is waited for without end; after a stop, only for [`STUCK`]. A reader that takes
/// something now and then is waited for in both cases.
#[tokio::test(start_paused = true)]
async fn after_a_stop_a_reader_who_takes_nothing_counts_as_gone() {
    let output = output();
    output.put(piece(100 * CHUNK_BYTES));
    let long = Duration::from_secs(3600);
    assert!(tokio::time::timeout(long, output.finish()).await.is_err(), "nobody asked for a stop");
    output.set_stopping(true);
    let reading = async {
        for _ in 0..20 {
            tokio::time::sleep(STUCK * 3 / 4).await;
            output.shared.write(&"x".repeat(CHUNK_BYTES), &mut std::io::sink()).unwrap_or_default();
            assert!(!output.shared.queue().is_closed, "somebody reads");
        }
    };
    tokio::join!(reading, async { drop(tokio::time::timeout(STUCK * 15, output.finish()).await) });
    assert!(tokio::time::timeout(STUCK * 3, output.finish()).await.is_ok());
    assert!(output.shared.queue().is_closed);
    output.show(piece(1)).await;
    assert_eq!(output.shared.queue().bytes, 0, "what nobody reads is dropped");
}

/// A closed stderr.
struct Closed;

impl Write for Closed {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Only the first chunk of a long note was counted as written when stderr was closed, and the end of the command waited for the
/// others.
#[tokio::test(start_paused = true)]
async fn a_long_note_that_stderr_does_not_take_holds_up_nothing() {
    let output = output();
    let note = "x".repeat(3 * CHUNK_BYTES);
    output.put(Show::Note(note.clone()));
    assert_eq!(output.shared.next(), Some(Job::Write(Show::Note(note.clone()))));
    assert!(output.shared.write(&(note + "\n"), &mut Closed).is_err());
    assert_eq!(output.shared.queue().bytes, 0);
    assert!(timeout(Duration::from_secs(3600), output.finish()).await.is_ok(), "nothing is left to write");
}

/// While a person types, a line of the model's text waits for its end; it is written in the order in which it came.
#[test]
fn text_is_written_by_lines_while_a_person_types() {
    let output = output();
    let next = || output.shared.queue().next_piece();
    let out = |text: &str| Some(Show::Out(text.to_owned()));
    let put = |text: &str| output.put(Show::Out(text.to_owned()));
    put("one");
    assert_eq!(next(), out("one"));
    output.set_typed(("> ", "u".to_owned()));
    put(" two\nth");
    put("ree");
    assert_eq!((next(), next()), (out(" two\n"), None));
    output.put(Show::Note("note".to_owned()));
    assert_eq!((next(), next()), (out("three"), Some(Show::Note("note".to_owned()))), "a note ends the line");
    put("four");
    assert_eq!(next(), None);
    output.set_typed(("", String::new()));
    assert_eq!(next(), out("four"));
    output.set_typed(("> ", "u".to_owned()));
    put(&"x".repeat(HELD_BYTES_MAX + 1));
    assert!(next().is_some(), "a line of any length is not held");
    put("five");
    output.set_stopping(true);
    assert_eq!(next(), out("five"), "a stop waits for no line");
}
