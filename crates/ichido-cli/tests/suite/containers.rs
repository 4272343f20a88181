//! The files in `deploy/` for containers, checked without any: the image file for its rules, the manifests by a validator with the schemas of
//! Kubernetes, the scaler's query on a real database. No base image can be had where this runs, so nothing is built.

use std::path::{Path, PathBuf};

use crate::testenv::{Env, Kind};

const IMAGE: &str = include_str!("../../../../deploy/Dockerfile");

fn manifests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kubernetes")
}

/// What the validator says about the manifests in this folder.
async fn validate(folder: &Path) -> Result<String, String> {
    let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python");
    assert!(
        packages.join("kubernetes_validate").is_dir(),
        "kubernetes-validate is missing: run ./test, which installs it"
    );
    let mut python = tokio::process::Command::new("python3");
    let said = python.arg(folder.join("validate.py")).env("PYTHONPATH", packages).env("PYTHONDONTWRITEBYTECODE", "1");
    let said = said.output().await.expect("python3 starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if said.status.success() { Ok(text(&said.stdout)) } else { Err(text(&said.stderr)) }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manifests_are_valid_and_the_scaler_counts_what_waits() {
    let queries = validate(&manifests()).await.unwrap();
    let [query] = queries.lines().collect::<Vec<_>>()[..] else { panic!("one scaler: {queries}") };
    let env = Env::new(Kind::Postgres).await;
    env.ok(&["migrate"]).await;
    let waiting = "insert into ichido_message (queue, payload, headers) values ('mail', '{}', '{}'), ('mail', '{}', '{}'), ('other', '{}', '{}')";
    env.sql(waiting).await;
    assert_eq!(env.number(query).await, 2);
}

/// Each of these would be a hole or an outage, and is refused with its place.
#[tokio::test]
async fn a_manifest_that_breaks_a_rule_is_refused() {
    for (now, then, why) in [
        ("runAsNonRoot: true", "runAsNonRoot: false", "runs as root"),
        ("readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "can be written"),
        ("{drop: [ALL]}", "{add: [NET_ADMIN]}", "keeps privileges"),
        ("maxUnavailable: 0", "maxUnavailable: 1", "stops processes before"),
        ("path: /livez", "path: /", "no probes"),
        ("terminationGracePeriodSeconds: 40", "terminationGracePeriodSeconds: 10", "before its grace"),
        ("replicas: 2", "replicas: two", "is not of type"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        for file in
            std::fs::read_dir(manifests()).unwrap().map(|file| file.unwrap().path()).filter(|file| file.is_file())
        {
            let text = std::fs::read_to_string(&file).unwrap();
            let text = if file.ends_with("process.yaml") { text.replace(now, then) } else { text };
            std::fs::write(folder.path().join(file.file_name().unwrap()), text).unwrap();
        }
        let refused = validate(folder.path()).await.expect_err(then);
        assert!(refused.contains(why) && refused.contains("process.yaml"), "{then}: {refused}");
    }
}

#[test]
fn the_image_is_slim_and_its_process_is_nobody() {
    let lines: Vec<&str> = IMAGE.lines().filter(|line| !line.starts_with('#')).collect();
    let last = lines.iter().rposition(|line| line.starts_with("FROM ")).unwrap();
    assert!(lines[last].ends_with("-slim"), "{}", lines[last]);
    let users: Vec<&&str> = lines[last..].iter().filter(|line| line.starts_with("USER ")).collect();
    assert_eq!(users, [&"USER 10001:10001"], "by number, and nothing after it");
    let user = lines.iter().position(|line| line.starts_with("USER ")).unwrap();
    assert!(!lines[user..].iter().any(|line| line.starts_with("RUN ") || line.starts_with("COPY ")));
    assert!(lines.iter().any(|line| line.contains("cargo build --release --locked")));
    assert!(lines.iter().any(|line| line.starts_with("ENTRYPOINT [")), "no shell before the process");
    assert!(!IMAGE.contains("ADD ") && !IMAGE.contains("curl") && !IMAGE.contains("SUDO"));
}
