//! In memory nothing is written: tested in a separate process, which may not write a single byte to a file.

use std::sync::Arc;

use tamtam::{
    Runtime, SessionOptions,
    model::{Reply, Scripted},
    ops::SweepPolicy,
    permission::Profile,
};

use super::{Bomb, Gate, Large, reply, say, seen};

/// Two runtimes in memory do not see each other, and nothing of one is there for the next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runtimes_in_memory_do_not_see_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let start = async || {
        let model = Arc::new(Scripted::from_fn(reply));
        Runtime::builder().in_memory().model(model).start().await.unwrap()
    };
    let (one, other) = (start().await, start().await);
    let options = || SessionOptions::new(folder.path()).id("s".parse().unwrap());
    let (here, there) = (one.create(options()).await.unwrap(), other.create(options()).await.unwrap());
    say(&here, "a").await;
    say(&there, "b").await;
    assert_eq!(
        (seen(&here).await, seen(&there).await),
        (vec!["a".into(), "re a".into()], vec!["b".into(), "re b".into()])
    );
    assert!(one.shutdown().await.is_empty());
    assert_eq!(say(&there, "c").await, "re c");
    assert!(other.shutdown().await.is_empty());
    let third = start().await;
    assert_eq!((third.list().await.unwrap(), third.recovered()), (vec![], &[][..]));
    assert!(third.shutdown().await.is_empty());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nor was anything put into the workspace");
}

#[cfg(target_os = "linux")]
mod alone {
    use super::*;

    /// Names the folder to whoever is started to do the work.
    const FOLDER: &str = "TAMTAM_TEST_NOTHING_IN";

    #[test]
    fn in_memory_nothing_is_written_to_any_disk() {
        let folder = tempfile::tempdir().unwrap();
        let places = ["home", "tmp", "here", "work"].map(|name| folder.path().join(name));
        places.iter().for_each(|place| std::fs::create_dir(place).unwrap());
        let [home, tmp, here, _] = &places;
        let ran = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "engines::nothing::alone::does_all_it_can", "--nocapture", "--test-threads=1"])
            .env(FOLDER, folder.path())
            .envs([
                ("HOME", home),
                ("XDG_DATA_HOME", home),
                ("XDG_STATE_HOME", home),
                ("XDG_RUNTIME_DIR", tmp),
                ("TMPDIR", tmp),
            ])
            .current_dir(here)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success() && said.contains("all of it was done"), "{}: {said}", ran.status);
        for place in &places {
            let left: Vec<_> = std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path()).collect();
            assert_eq!(left, Vec::<std::path::PathBuf>::new());
        }
    }

    /// Files that this process has open to write.
    fn written_files() -> Vec<String> {
        let mut files = Vec::new();
        for fd in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
            let name = fd.file_name().to_string_lossy().into_owned();
            let Ok(target) = std::fs::read_link(fd.path()) else { continue };
            let Ok(info) = std::fs::read_to_string(format!("/proc/self/fdinfo/{name}")) else { continue };
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap_or("0").trim();
            let writes = u32::from_str_radix(flags, 8).unwrap_or(0) & 0o3 != 0;
            if writes && target.is_absolute() && target.is_file() {
                files.push(target.display().to_string());
            }
        }
        files
    }

    /// Not a test by itself: the work of the one above, in a process of its own.
    #[test]
    fn does_all_it_can() {
        let Some(folder) = std::env::var_os(FOLDER).map(std::path::PathBuf::from) else { return };
        // What may not grow cannot be written to; whoever tries is killed.
        let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
        rustix::process::setrlimit(rustix::process::Resource::Fsize, none).unwrap();
        let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        tokio.block_on(work(&folder.join("work")));
        println!("all of it was done");
    }

    async fn work(folder: &std::path::Path) {
        let (gate, bomb) = (Gate::default(), Bomb::default());
        let model = Scripted::from_fn(|request| {
            let bash = request.history.last().is_some_and(|item| match &**item {
                tamtam::model::Item::User(user) => user.text() == "run it",
                _ => false,
            });
            let command =
                "for n in 1 2 3 4 5 6 7 8 9; do echo $n; done; sleep 600 & yes x | head -c 600000 | tr -d '\\n'";
            if bash { Reply::call("bash", serde_json::json!({ "command": command })) } else { reply(request) }
        });
        let builder = Runtime::builder().in_memory().model(Arc::new(model));
        #[cfg(feature = "tools")]
        let builder = builder.tools(tamtam::tools::full());
        let runtime = builder.tool(gate.clone()).tool(bomb.clone()).tool(Large).start().await.unwrap();
        bomb.arm(&runtime);
        bomb.goes_off(1);
        let options = SessionOptions::new(folder).profile(Profile::Auto);
        let session = runtime.create(options).await.unwrap();
        say(&session, "hello").await;
        let turn = session.prompt("call gate").await.unwrap();
        gate.is_running().await;
        assert_eq!(written_files(), Vec::<String>::new());
        gate.open.add_permits(1);
        turn.wait().await.unwrap();
        say(&session, "call large").await;
        say(&session, "call bomb").await;
        #[cfg(feature = "tools")]
        {
            say(&session, "run it").await;
            let results = seen(&session).await;
            let told = results.iter().any(|result| result.contains("xxx") && result.contains("keeps no large outputs"));
            assert!(told, "{results:?}");
        }
        let fork = session.fork(session.state().await.unwrap().seq).await.unwrap();
        say(&fork, "there").await;
        session.merge_and_delete(fork.id()).await.unwrap();
        session.undo().await.unwrap();
        runtime.passivate(session.id()).await.unwrap();
        say(&session, "and now").await;
        runtime.protect(session.id()).await.unwrap();
        assert_eq!(written_files(), Vec::<String>::new());
        runtime.sweep(SweepPolicy::default()).await.unwrap();
        assert!(runtime.shutdown().await.is_empty());
        assert_eq!(written_files(), Vec::<String>::new());
    }
}
