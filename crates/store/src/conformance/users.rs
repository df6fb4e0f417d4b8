//! Who may use a server.

use cofferdam_types::Timestamp;

use super::lab::{Failure, Lab, NOW, fails, same};
use crate::error::StoreError;
use crate::ids::{TokenId, UserId};
use crate::user::{Principal, TokenHash, TokenRow, UserRow};

super::promises! {
    listed: "users come back by name";
    unique: "a user's name is its own";
    tokens: "tokens come back, the oldest first, and each leads to its user";
    expired: "a token that has expired leads to nobody";
    removed: "a token that was removed leads to nobody";
    gone: "a user who was removed is gone with all tokens, and the jobs stay";
    strange: "what is not there cannot be removed or added to";
}

fn user(name: &str, admin: bool) -> UserRow {
    UserRow { id: UserId::generate(), name: name.to_owned(), admin, created: NOW }
}

fn token(user: &UserRow, label: &str, expires: Option<Timestamp>) -> TokenRow {
    let label = label.to_owned();
    TokenRow { id: TokenId::generate(), user: user.id, label, created: NOW, expires }
}

async fn listed(lab: &Lab) -> Result<(), Failure> {
    same!(lab.store.users().await?, vec![], "users of an empty store");
    let mut users = vec![user("zoe", false), user("Adam", true), user("🦀 eve", false)];
    for user in &users {
        lab.store.add_user(user.clone()).await?;
    }
    users.sort_by(|a, b| a.name.cmp(&b.name));
    same!(lab.store.users().await?, users, "the users");
    Ok(())
}

async fn unique(lab: &Lab) -> Result<(), Failure> {
    let first = user("zoe", false);
    lab.store.add_user(first.clone()).await?;
    let second = user("zoe", true);
    fails!(lab.store.add_user(second.clone()).await, StoreError::Taken(_), "the same name");
    let renamed = UserRow { name: "other".to_owned(), ..first.clone() };
    fails!(lab.store.add_user(renamed).await, StoreError::Taken(_), "the same id");
    same!(lab.store.users().await?, vec![first.clone()], "the users");
    lab.store.remove_user(first.id).await?;
    lab.store.add_user(second).await?;
    Ok(())
}

async fn tokens(lab: &Lab) -> Result<(), Failure> {
    let (one, other) = (user("one", true), user("other", false));
    lab.store.add_user(one.clone()).await?;
    lab.store.add_user(other.clone()).await?;
    let first = token(&one, "laptop 🦀", None);
    let second = token(&one, "", Some(Timestamp(4_000_000_000_000)));
    let third = token(&other, "ci", None);
    for (n, token) in (1..).zip([&first, &second, &third]) {
        lab.store.add_token(token.clone(), TokenHash([n; 32])).await?;
    }
    same!(lab.store.tokens(one.id).await?, vec![first.clone(), second.clone()], "the tokens");
    for (n, token, user) in [(1, &first, &one), (2, &second, &one), (3, &third, &other)] {
        let wanted = Principal { user: user.clone(), token: token.id };
        same!(lab.store.principal(TokenHash([n; 32])).await?, Some(wanted), "whose it is");
    }
    same!(lab.store.principal(TokenHash([4; 32])).await?, None, "whose a strange one is");
    same!(lab.store.tokens(UserId::generate()).await?, vec![], "tokens of nobody");
    let again = token(&other, "again", None);
    let outcome = lab.store.add_token(again, TokenHash([1; 32])).await;
    fails!(outcome, StoreError::Taken(_), "the same secret");
    same!(lab.store.tokens(other.id).await?, vec![third], "the tokens of the other");
    Ok(())
}

async fn expired(lab: &Lab) -> Result<(), Failure> {
    let one = user("one", false);
    lab.store.add_user(one.clone()).await?;
    let old = token(&one, "old", Some(NOW));
    lab.store.add_token(old.clone(), TokenHash([1; 32])).await?;
    same!(lab.store.principal(TokenHash([1; 32])).await?, None, "whose it is");
    same!(lab.store.tokens(one.id).await?, vec![old], "the tokens");
    Ok(())
}

async fn removed(lab: &Lab) -> Result<(), Failure> {
    let one = user("one", false);
    lab.store.add_user(one.clone()).await?;
    let (first, second) = (token(&one, "first", None), token(&one, "second", None));
    lab.store.add_token(first.clone(), TokenHash([1; 32])).await?;
    lab.store.add_token(second.clone(), TokenHash([2; 32])).await?;
    lab.store.remove_token(first.id).await?;
    same!(lab.store.principal(TokenHash([1; 32])).await?, None, "whose it is");
    same!(lab.store.tokens(one.id).await?, vec![second], "the tokens left");
    Ok(())
}

async fn gone(lab: &Lab) -> Result<(), Failure> {
    let (one, other) = (user("one", false), user("other", false));
    for (n, user) in (1..).zip([&one, &other]) {
        lab.store.add_user(user.clone()).await?;
        lab.store.add_token(token(user, "a", None), TokenHash([n; 32])).await?;
    }
    let job = lab.submit(one.id).await?;
    lab.store.remove_user(one.id).await?;
    same!(lab.store.users().await?, vec![other.clone()], "the users");
    same!(lab.store.principal(TokenHash([1; 32])).await?, None, "whose the token is");
    same!(lab.store.tokens(one.id).await?, vec![], "the tokens");
    same!(lab.row(job).await?.user, one.id, "whose the job is");
    let kept = lab.store.principal(TokenHash([2; 32])).await?;
    same!(kept.map(|principal| principal.user), Some(other), "whose the other token is");
    Ok(())
}

async fn strange(lab: &Lab) -> Result<(), Failure> {
    let nobody = user("nobody", false);
    let missing = lab.store.remove_user(nobody.id).await;
    fails!(missing, StoreError::Missing(_), "removing a user");
    let missing = lab.store.remove_token(TokenId::generate()).await;
    fails!(missing, StoreError::Missing(_), "removing a token");
    let missing = lab.store.add_token(token(&nobody, "a", None), TokenHash([1; 32])).await;
    fails!(missing, StoreError::Missing(_), "a token for nobody");
    Ok(())
}
