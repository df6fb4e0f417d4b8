//! PostgreSQL behaves like a store.

use std::sync::Arc;

use cofferdam_store::{Store, TokenHash, TokenId, TokenRow, UserId, UserRow, conformance};
use cofferdam_store_postgres::PostgresStore;
use cofferdam_testkit::Postgres;
use cofferdam_types::Timestamp;

use super::fixture::fresh;

#[tokio::test]
async fn postgres_behaves_like_a_store() {
    let server = Postgres::shared();
    let url = server.database();
    let report = conformance::run_all(|| {
        // An empty store for each case: much quicker than a new database.
        assert_eq!(server.sql(&url, "DROP SCHEMA IF EXISTS cofferdam CASCADE"), "");
        let url = url.clone();
        Box::pin(
            async move { Arc::new(PostgresStore::open(&url).await.unwrap()) as Arc<dyn Store> },
        )
    });
    report.await.assert_passed();
}

#[tokio::test]
async fn names_of_any_characters_are_kept() {
    let (_server, _url, store) = fresh().await;
    let id = UserId::generate();
    let user =
        UserRow { id, name: "nul\0 \u{202e}🦀".to_owned(), admin: true, created: Timestamp(1) };
    store.add_user(user.clone()).await.unwrap();
    assert_eq!(store.users().await.unwrap(), std::slice::from_ref(&user));
    let label = "a\0b".to_owned();
    let token =
        TokenRow { id: TokenId::generate(), user: id, label, created: Timestamp(1), expires: None };
    store.add_token(token.clone(), TokenHash([7; 32])).await.unwrap();
    assert_eq!(store.tokens(id).await.unwrap(), std::slice::from_ref(&token));
    let found = store.principal(TokenHash([7; 32])).await.unwrap().unwrap();
    assert_eq!((found.user, found.token), (user, token.id));
}
