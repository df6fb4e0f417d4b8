//! bench
#![allow(warnings, clippy::all)]
#[path = "../tests/it/fixture.rs"]
mod fixture;
use cofferdam_store::*;
use cofferdam_store_postgres::*;
use cofferdam_testkit::Postgres;
use fixture::*;
use futures_util::{StreamExt, stream};
use std::time::*;

#[tokio::main]
async fn main() {
    let server = Postgres::start_with(&[("fsync", "on"), ("full_page_writes", "on"), ("shared_buffers", "128MB")]);
    let url = server.database();
    let store = PostgresStore::open(&url).await.unwrap();
    let users: Vec<UserId> = (0..20).map(|_| UserId::generate()).collect();
    for conc in [1usize, 8, 32] {
        let n = 200 * conc.min(16);
        let t = Instant::now();
        stream::iter(0..n).for_each_concurrent(conc, |i| { let s = &store; let u = users[i % 20]; async move { submit(s, u).await; } }).await;
        println!("submit conc {conc}: {:.0}/s", n as f64 / t.elapsed().as_secs_f64());
    }
    let leases = store.lease(ask(NodeId::generate(), 64, HOUR)).await.unwrap();
    for conc in [1usize, 8, 32] {
        let t = Instant::now();
        let k = 200;
        let base = store.job(leases[0].job.id).await.unwrap().unwrap().last_seq;
        stream::iter(leases.iter().take(conc)).for_each_concurrent(conc, |l| { let s = &store; async move {
            let b = s.job(l.job.id).await.unwrap().unwrap().last_seq;
            for i in 0..k { s.append(noted(l, b + 1 + i, "some text of an event")).await.unwrap(); } } }).await;
        println!("append conc {conc}: {:.0}/s", (k as usize * conc) as f64 / t.elapsed().as_secs_f64());
    }
    let t = Instant::now();
    for _ in 0..1000 { store.job(leases[0].job.id).await.unwrap(); }
    println!("status conc 1: {:.0}/s", 1000.0 / t.elapsed().as_secs_f64());
    if std::env::args().nth(1).is_some() {
        let t = Instant::now();
        drop(server.sql(&url, "INSERT INTO cofferdam.jobs (id,user_id,title,status,priority,created,spent,last_seq,epoch) SELECT gen_random_uuid(), ('00000000-0000-0000-0000-0000000000'||to_char(n%50,'FM00'))::uuid, 'x', (ARRAY['complete','error','cancelled'])[1+n%3],0,1,(SELECT spent FROM cofferdam.jobs WHERE status='pending' LIMIT 1),1,1 FROM generate_series(1,1000000) n"));
        drop(server.sql(&url, "INSERT INTO cofferdam.jobs (id,user_id,title,status,priority,created,spent,last_seq,epoch) SELECT gen_random_uuid(), ('00000000-0000-0000-0000-0000000000'||to_char(n%50,'FM00'))::uuid, 'x', 'pending',0,1,(SELECT spent FROM cofferdam.jobs WHERE status='pending' LIMIT 1),1,0 FROM generate_series(1,10000) n"));
        drop(server.sql(&url, "UPDATE cofferdam.jobs SET spent = (SELECT spent FROM cofferdam.jobs WHERE status='pending' LIMIT 1)  WHERE false"));
        println!("filled in {:?}", t.elapsed());
        for round in 0..2 {
        let t = Instant::now(); let c = store.counts(None).await; println!("counts {:?} {:?}", t.elapsed(), c);
        let t = Instant::now(); let c = store.counts(Some(users[0])).await; println!("counts user {:?} {:?}", t.elapsed(), c);
        for st in [vec![], vec![Status::Pending], vec![Status::Complete, Status::Running]] { for u in [None, Some(users[0])] {
            let t = Instant::now(); let c = store.jobs(JobQuery { user: u, statuses: st.clone(), before: None, limit: 50 }).await.map(|v| v.len()); println!("jobs {st:?} {} {:?} {:?}", u.is_some(), t.elapsed(), c.map_err(|e| e.to_string()));
        } }
        let t = Instant::now(); for _ in 0..20 { let l = store.lease(LeaseAsk { node: NodeId::generate(), span: HOUR, most: 4, per_user: 50 }).await; assert_eq!(l.unwrap().len(), 4); } println!("lease of 4: {:?}", t.elapsed() / 20);
        let t = Instant::now(); for _ in 0..100 { submit(&store, users[3]).await; } println!("submit at 10,000 pending: {:?}", t.elapsed() / 100);
        let t = Instant::now();
        stream::iter(0..1000).for_each_concurrent(16, |i| { let s = &store; let u = users[i % 20]; async move { submit(s, u).await; } }).await;
        println!("submit conc 16 at 10,000 pending: {:.0}/s", 1000 as f64 / t.elapsed().as_secs_f64());
        drop(server.sql(&url, "VACUUM ANALYZE cofferdam.jobs"));
        }
    }
}
