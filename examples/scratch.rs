// scratch driver: minimal resumes.csv + events
use forkscope::pipeline::{Options, Progress, run};
fn t(n: i64) -> String {
    format!(
        "{}.{:09}",
        n.div_euclid(1_000_000_000),
        n.rem_euclid(1_000_000_000)
    )
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let an = run(
        &Options {
            inputs: vec![a[2].clone()],
            ..Default::default()
        },
        &Progress::default(),
    )
    .unwrap();
    if a[1] == "audit" {
        let dir = a.iter().position(|x| x == "-o").map(|i| a[i + 1].clone());
        if let Some(d) = &dir {
            std::fs::create_dir_all(d).unwrap();
            let mut w = csv::Writer::from_path(format!("{d}/resumes.csv")).unwrap();
            w.write_record([
                "session_id",
                "last_event_id",
                "verdict",
                "confidence",
                "reason",
                "findings",
                "first_event_id",
                "disconnect_time",
                "disconnect_cause",
                "resume_time",
                "frame",
                "incarnation",
                "incarnation_after",
                "scheme",
            ])
            .unwrap();
            for r in &an.resumes {
                w.write_record([
                    &*r.session_id,
                    &r.last_event_id,
                    r.verdict.name(),
                    r.confidence.name(),
                    &r.reason,
                    &r.findings.join(";"),
                    r.first_event_id.as_deref().unwrap_or(""),
                    &r.disconnect_time.map(|x| t(x.nanos())).unwrap_or_default(),
                    r.disconnect_cause.map(|c| c.name()).unwrap_or(""),
                    &t(r.resume_time.nanos()),
                    &r.place.frame.to_string(),
                    &r.incarnation.to_string(),
                    &format!("{:?}", r.incarnation_after),
                    r.id_scheme.name(),
                ])
                .unwrap();
            }
            w.flush().unwrap();
        }
        if dir.is_none() {
            for i in &an.inputs {
                println!("{i:?}");
            }
            println!("{:?}", an.totals);
            for r in &an.resumes {
                println!(
                    "{} {} {} {} [{}] {:?} first={:?} inc {}->{:?} gap={:?} cause={:?} req={:?}",
                    r.session_id,
                    r.last_event_id,
                    r.verdict,
                    r.confidence.name(),
                    r.reason,
                    r.findings,
                    r.first_event_id,
                    r.incarnation,
                    r.incarnation_after,
                    r.gap.map(|g| g.millis_f64()),
                    r.disconnect_cause.map(|c| c.name()),
                    r.requests
                );
                for l in &r.story {
                    println!("     {l}")
                }
            }
            for f in &an.findings {
                println!(
                    "F {} {} {} {} r={:?} #{}",
                    f.code,
                    f.severity.name(),
                    f.session_id,
                    f.detail,
                    f.resume,
                    f.place.frame
                );
            }
            for (i, k, t) in an.anomalies.iter() {
                println!("A {i:?} {} {} {:?}", k.name(), t.count, t.examples.first());
            }
            for s in &an.segments {
                let e = &an.exchanges[s.exchange as usize];
                println!(
                    "S {} inc{} st{} seg{} {} {:?} lei={:?} end={} n={} {:?}",
                    s.session_id,
                    s.incarnation,
                    s.stream,
                    s.segment,
                    e.method(),
                    e.status(),
                    s.last_event_id,
                    s.end_cause.name(),
                    e.events.len(),
                    e.events
                        .iter()
                        .map(|v| format!(
                            "{}{}{}",
                            v.id.map_or("-", |i| e.text(i)),
                            if v.delivered { "" } else { "!" },
                            if v.is_message() { "" } else { "~" }
                        ))
                        .collect::<Vec<_>>()
                        .join(" ")
                );
            }
        }
    } else {
        let mut w = csv::Writer::from_writer(std::io::stdout());
        w.write_record([
            "client",
            "server",
            "method",
            "last_event_id",
            "request_time",
            "exchange",
            "event_id",
        ])
        .unwrap();
        for (n, e) in an.exchanges.iter().enumerate() {
            for v in &e.events {
                w.write_record([
                    e.client.as_ref().map(|c| c.to_string()).unwrap_or_default(),
                    e.server.as_ref().map(|c| c.to_string()).unwrap_or_default(),
                    e.method().to_string(),
                    e.request
                        .as_ref()
                        .and_then(|r| r.last_event_id.as_deref().map(|s| s.to_string()))
                        .unwrap_or_default(),
                    t(e.time().nanos()),
                    n.to_string(),
                    v.id.map_or("", |i| e.text(i)).to_string(),
                ])
                .unwrap();
            }
        }
    }
}
