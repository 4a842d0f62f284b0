//! The deployment beside a server: that its parts agree with one another and with the policy.

use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::blocks::{Document, root};
use crate::commands::status_address;
use crate::process::{Running, curl, weirgate};
use crate::yaml;

/// The objects of `sidecar.yaml`.
struct Sidecar {
    config: Value,
    deployment: Value,
    service: Value,
}

impl Sidecar {
    fn read() -> Sidecar {
        let text = Document::read("deploy/sidecar.yaml").text;
        let objects: [Value; 3] = yaml::documents(&text).try_into().unwrap();
        let kinds = objects.each_ref().map(|object| object["kind"].clone());
        assert_eq!(kinds, ["ConfigMap", "Deployment", "Service"]);
        let [config, deployment, service] = objects;
        Sidecar {
            config,
            deployment,
            service,
        }
    }

    fn pod(&self) -> &Value {
        &self.deployment["spec"]["template"]["spec"]
    }

    /// The container of the gateway.
    fn gateway(&self) -> &Value {
        let containers = self.pod()["containers"].as_array().unwrap();
        let named = |container: &&Value| container["name"] == "weirgate";
        containers.iter().find(named).unwrap()
    }

    /// The number of one of the gateway's named ports.
    fn port(&self, name: &str) -> u64 {
        let ports = self.gateway()["ports"].as_array().unwrap();
        let port = ports.iter().find(|port| port["name"] == name).unwrap();
        port["containerPort"].as_u64().unwrap()
    }

    /// The policy as the kubelet mounts it: the files are links into a hidden directory, which is
    /// a link itself.
    fn mount(&self) -> TempDir {
        let mounted = TempDir::new().unwrap();
        let hidden = mounted.path().join("..2026_07_28");
        std::fs::create_dir(&hidden).unwrap();
        symlink("..2026_07_28", mounted.path().join("..data")).unwrap();
        for (name, text) in self.config["data"].as_object().unwrap() {
            std::fs::write(hidden.join(name), text.as_str().unwrap()).unwrap();
            symlink(Path::new("..data").join(name), mounted.path().join(name)).unwrap();
        }
        mounted
    }
}

/// What `weirgate check` finds out about a policy, which is good and raises no warning.
fn checked(policy: &Path) -> Value {
    let output = weirgate(&["check", "--json", policy.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let checked: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(checked["warnings"], json!([]));
    checked
}

fn port_of(address: &Value) -> u64 {
    let address: SocketAddr = address.as_str().unwrap().parse().unwrap();
    assert!(address.ip().is_unspecified(), "others must reach {address}");
    address.port().into()
}

#[test]
fn the_ports_are_those_of_the_policy() {
    let sidecar = Sidecar::read();
    let policy = checked(sidecar.mount().path());
    assert_eq!(port_of(&policy["listen"]), sidecar.port("mcp"));
    assert_eq!(port_of(&policy["status"]), sidecar.port("status"));
    let url = policy["upstreams"][0]["url"].as_str().unwrap();
    assert!(url.starts_with("http://127.0.0.1:3000/"), "{url}");

    let ports = sidecar.service["spec"]["ports"].as_array().unwrap();
    assert_eq!(ports.len(), 1, "a way past the gateway");
    assert_eq!(ports[0]["targetPort"], "mcp");
    let template = &sidecar.deployment["spec"]["template"];
    let labels = &template["metadata"]["labels"];
    assert_eq!(&sidecar.service["spec"]["selector"], labels);
    let selector = &sidecar.deployment["spec"]["selector"];
    assert_eq!(&selector["matchLabels"], labels);
}

#[test]
fn the_server_outlives_what_the_gateway_lets_finish() {
    let sidecar = Sidecar::read();
    let mounted = sidecar.mount();
    let policy = std::fs::read_to_string(mounted.path().join("gateway.yaml")).unwrap();
    let [policy] = yaml::documents(&policy).try_into().unwrap();
    let seconds = |key: &str| -> u64 {
        let time: &Value = &policy["shutdown"][key];
        let time = time.as_str().unwrap().strip_suffix('s').unwrap();
        time.parse().unwrap()
    };
    let whole = seconds("notice") + seconds("timeout");
    let server = &sidecar.pod()["containers"][0];
    let sleeps = &server["lifecycle"]["preStop"]["sleep"]["seconds"];
    assert_eq!(sleeps.as_u64(), Some(whole));
    let grace = sidecar.pod()["terminationGracePeriodSeconds"].as_u64();
    assert!(grace.unwrap() > whole, "the kubelet would break it off");
}

#[test]
fn the_policy_is_mounted_where_it_is_read() {
    let sidecar = Sidecar::read();
    let mount = &sidecar.gateway()["volumeMounts"][0];
    let path = &mount["mountPath"];
    assert_eq!(sidecar.gateway()["args"], json!(["run", "--policy", path]));
    let volume = &sidecar.pod()["volumes"][0];
    assert_eq!(volume["name"], mount["name"]);
    let name = &sidecar.config["metadata"]["name"];
    assert_eq!(&volume["configMap"]["name"], name);
    let containerfile = Document::read("deploy/Containerfile").text;
    let command = format!("CMD [\"run\", \"--policy\", {path}]");
    assert!(containerfile.contains(&command), "{command}");
}

#[test]
fn the_probes_are_answered() {
    let sidecar = Sidecar::read();
    let mounted = sidecar.mount();
    let policy = mounted.path().to_str().unwrap();
    let any = "127.0.0.1:0";
    let arguments = [
        "run", "--policy", policy, "--listen", any, "--status", any, "--admin", any,
    ];
    let gateway = Running::weirgate(&arguments);
    let status = gateway.err(status_address);
    for (probe, says) in [("livenessProbe", "ok\n"), ("readinessProbe", "ready\n")] {
        let get = &sidecar.gateway()[probe]["httpGet"];
        assert_eq!(get["port"], "status");
        let path = get["path"].as_str().unwrap();
        // The kubelet asks the pod by its address.
        let line = format!("curl -sS http://{status}{path} -H 'Host: 10.1.2.3:9902'");
        assert_eq!(curl(&line), (200, says.to_owned()), "{probe}");
    }
}

#[test]
fn the_gateway_may_do_nothing_that_it_need_not() {
    let sidecar = Sidecar::read();
    let context = &sidecar.gateway()["securityContext"];
    assert_eq!(context["runAsNonRoot"], true);
    assert_eq!(context["readOnlyRootFilesystem"], true);
    assert_eq!(context["allowPrivilegeEscalation"], false);
    assert_eq!(context["capabilities"], json!({"drop": ["ALL"]}));
    assert_eq!(sidecar.pod()["automountServiceAccountToken"], false);
    let user = format!("USER {0}:{0}\n", context["runAsUser"]);
    assert!(
        Document::read("deploy/Containerfile").text.contains(&user),
        "{user}"
    );
}

#[test]
fn the_image_is_built_from_what_is_there() {
    let containerfile = Document::read("deploy/Containerfile").text;
    let manifest = Document::read("Cargo.toml").text;
    let version = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = "));
    let rust = format!("/rust:{}-", version.unwrap().trim_matches('"'));
    assert!(containerfile.contains(&rust), "{rust}");
    let mut copied = Vec::new();
    for line in containerfile.lines() {
        let Some(words) = line.strip_prefix("COPY ") else {
            continue;
        };
        let words: Vec<&str> = words.split_whitespace().collect();
        if !words[0].starts_with("--from=") {
            copied.extend(words[..words.len() - 1].iter().copied());
        }
    }
    assert_eq!(copied, ["Cargo.toml", "Cargo.lock", "src"]);
    assert!(copied.iter().all(|name| root().join(name).exists()));
    let sidecar = Sidecar::read();
    let ports = format!(
        "EXPOSE {} {}\n",
        sidecar.port("mcp"),
        sidecar.port("status")
    );
    assert!(containerfile.contains(&ports), "{ports}");
}
