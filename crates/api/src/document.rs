//! The OpenAPI document, made of the endpoints and the types.

use std::collections::BTreeMap;

use utoipa::openapi::path::{
    HttpMethod, OperationBuilder, ParameterBuilder, ParameterIn, PathItem, PathsBuilder,
};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{
    ComponentsBuilder, Object, ObjectBuilder, Schema, SchemaFormat, Type,
};
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{
    ContentBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, Ref, RefOr, Required,
};
use utoipa::{PartialSchema, ToSchema};

use crate::problem::{PROBLEM_JSON, Problem};

const ABOUT: &str = "A coding agent that works in a sandbox, as a server.\n\n\
    Two endpoints are no part of this document, because they speak WebSocket. \
    A client that cannot set a header offers `bearer.TOKEN` as a second subprotocol.\n\n\
    `GET /api/v1/jobs/{id}/terminal?cols=80&rows=24` with the subprotocol \
    `cofferdam.terminal.v1` opens a terminal in the sandbox of a running job. Binary messages \
    are the terminal's bytes, both ways; text messages are JSON: `{\"resize\": {\"cols\": 80, \
    \"rows\": 24}}` from the client, `{\"ended\": …}` or `{\"closed\": \"why\"}` from the \
    server, as its last.\n\n\
    `GET /api/v1/jobs/{id}/desktop/screen` with the subprotocol `cofferdam.screen.v1` shows the \
    desktop of a running job. Binary messages are RFB 3.8 (VNC), both ways; text messages are \
    JSON: `{\"take_over\": {}}` and `{\"give_back\": {}}` from the client, `{\"hands\": \
    \"yours\"}` (or `job`, `other`), `{\"told\": \"why not\"}` and, as its last, `{\"closed\": \
    \"why\"}` from the server. Whoever has not taken over can only watch. Viewers that offer \
    `binary` get no text messages.";

/// The OpenAPI 3.1 document of the API.
#[must_use]
pub fn document() -> OpenApi {
    let mut schemas = Schemas::new();
    let mut paths: BTreeMap<String, PathItem> = BTreeMap::new();
    let problem = json::<Problem>();
    problem.collect(&mut schemas);
    for endpoint in crate::endpoints::all() {
        for media in endpoint.bodies.iter().chain(endpoint.answers.iter().map(|(_, _, m)| m)) {
            media.collect(&mut schemas);
        }
        let item = PathItem::new(endpoint.method.clone(), endpoint.operation(&problem));
        match paths.get_mut(&endpoint.path) {
            Some(there) => there.merge_operations(item),
            None => drop(paths.insert(endpoint.path, item)),
        }
    }
    let components = schemas
        .into_iter()
        .fold(ComponentsBuilder::new(), |all, (name, schema)| all.schema(name, schema))
        .security_scheme(
            "bearer",
            SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build()),
        )
        .security_scheme(
            "key",
            SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::new("X-API-Key"))),
        );
    let license = LicenseBuilder::new().name("MIT").identifier(Some("MIT")).build();
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("Cofferdam")
                .version("1")
                .description(Some(ABOUT))
                .license(Some(license))
                .build(),
        )
        .paths(
            paths
                .into_iter()
                .fold(PathsBuilder::new(), |all, (path, item)| all.path(path, item))
                .build(),
        )
        .components(Some(components.build()))
        .security(Some([
            SecurityRequirement::new("bearer", Vec::<String>::new()),
            SecurityRequirement::new("key", Vec::<String>::new()),
        ]))
        .build()
}

type Schemas = BTreeMap<String, RefOr<Schema>>;

/// Who may use an endpoint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everybody.
    Public,
    /// Whoever has a token.
    Token,
}

/// What is sent or answered, in one media type.
pub(crate) struct Media {
    name: &'static str,
    /// None for bytes, which have no form.
    schema: Option<RefOr<Schema>>,
    schemas: Vec<(String, RefOr<Schema>)>,
}

impl Media {
    fn collect(&self, into: &mut Schemas) {
        into.extend(self.schemas.iter().cloned());
    }
}

/// JSON of this type.
pub(crate) fn json<T: ToSchema + PartialSchema>() -> Media {
    let mut schemas = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut schemas);
    let schema = RefOr::Ref(Ref::from_schema_name(T::name().into_owned()));
    let name = if T::name() == "Problem" { PROBLEM_JSON } else { "application/json" };
    Media { name, schema: Some(schema), schemas }
}

/// Text, in words.
pub(crate) fn text(name: &'static str, what: &str) -> Media {
    let is_json = name.ends_with("/json") || name.ends_with("+json");
    let object = if is_json { ObjectBuilder::new() } else { string() };
    plain(name, object.description(Some(what)).build())
}

/// Bytes.
pub(crate) fn binary(name: &'static str) -> Media {
    Media { name, schema: None, schemas: Vec::new() }
}

/// A page.
pub(crate) fn html() -> Media {
    text("text/html", "The page.")
}

fn string() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn uuid() -> ObjectBuilder {
    string().format(Some(SchemaFormat::Custom("uuid".to_owned())))
}

fn path() -> ObjectBuilder {
    string().min_length(Some(1)).max_length(Some(4096)).pattern(Some("^[^\\u0000]+$"))
}

fn integer(least: i64, most: i64) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(least)).maximum(Some(most))
}

fn plain(name: &'static str, object: Object) -> Media {
    let schema = Some(RefOr::T(Schema::Object(object)));
    Media { name, schema, schemas: Vec::new() }
}

struct Parameter {
    name: String,
    place: ParameterIn,
    required: bool,
    about: String,
    schema: Object,
}

/// An endpoint.
pub(crate) struct Endpoint {
    path: String,
    method: HttpMethod,
    id: &'static str,
    tag: &'static str,
    title: &'static str,
    about: Option<&'static str>,
    access: Access,
    parameters: Vec<Parameter>,
    bodies: Vec<Media>,
    body_required: bool,
    answers: Vec<(u16, &'static str, Media)>,
    others: Vec<(u16, &'static str, bool)>,
}

impl Endpoint {
    fn new(
        method: HttpMethod,
        path: &str,
        id: &'static str,
        tag: &'static str,
        title: &'static str,
    ) -> Self {
        let mut endpoint = Self {
            path: path.to_owned(),
            method,
            id,
            tag,
            title,
            about: None,
            access: Access::Token,
            parameters: Vec::new(),
            bodies: Vec::new(),
            body_required: true,
            answers: Vec::new(),
            others: Vec::new(),
        };
        if path.contains("{id}") {
            endpoint.parameters.push(Parameter {
                name: "id".to_owned(),
                place: ParameterIn::Path,
                required: true,
                about: "Which one.".to_owned(),
                schema: uuid().build(),
            });
        }
        if path.contains("{port}") {
            endpoint.parameters.push(Parameter {
                name: "port".to_owned(),
                place: ParameterIn::Path,
                required: true,
                about: "A TCP port inside the sandbox.".to_owned(),
                schema: integer(1, i64::from(u16::MAX)).build(),
            });
        }
        endpoint
    }

    pub(crate) fn get(
        path: &str,
        id: &'static str,
        tag: &'static str,
        title: &'static str,
    ) -> Self {
        Self::new(HttpMethod::Get, path, id, tag, title)
    }

    pub(crate) fn post(
        path: &str,
        id: &'static str,
        tag: &'static str,
        title: &'static str,
    ) -> Self {
        Self::new(HttpMethod::Post, path, id, tag, title)
    }

    pub(crate) fn put(
        path: &str,
        id: &'static str,
        tag: &'static str,
        title: &'static str,
    ) -> Self {
        Self::new(HttpMethod::Put, path, id, tag, title)
    }

    pub(crate) fn delete(
        path: &str,
        id: &'static str,
        tag: &'static str,
        title: &'static str,
    ) -> Self {
        Self::new(HttpMethod::Delete, path, id, tag, title)
    }

    pub(crate) fn about(mut self, about: &'static str) -> Self {
        self.about = Some(about);
        self
    }

    pub(crate) fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    fn parameter(
        mut self,
        name: &str,
        place: ParameterIn,
        required: bool,
        about: &str,
        schema: ObjectBuilder,
    ) -> Self {
        let (name, about) = (name.to_owned(), about.to_owned());
        self.parameters.push(Parameter { name, place, required, about, schema: schema.build() });
        self
    }

    /// A text of this pattern.
    pub(crate) fn matching(self, name: &str, about: &str, pattern: &str) -> Self {
        self.parameter(name, ParameterIn::Query, false, about, string().pattern(Some(pattern)))
    }

    /// The id of something.
    pub(crate) fn id(self, name: &str, about: &str) -> Self {
        self.parameter(name, ParameterIn::Query, false, about, uuid())
    }

    /// A path in a workspace.
    pub(crate) fn path(self, about: &str) -> Self {
        self.parameter("path", ParameterIn::Query, false, about, path())
    }

    /// The same where it must be there.
    pub(crate) fn needs_path(self, about: &str) -> Self {
        self.parameter("path", ParameterIn::Query, true, about, path())
    }

    pub(crate) fn number(self, name: &str, about: &str, least: i64, most: i64) -> Self {
        self.parameter(name, ParameterIn::Query, false, about, integer(least, most))
    }

    pub(crate) fn flag(self, name: &str, about: &str) -> Self {
        let schema = ObjectBuilder::new().schema_type(Type::Boolean);
        self.parameter(name, ParameterIn::Query, false, about, schema)
    }

    /// A header of this pattern.
    pub(crate) fn header(self, name: &str, about: &str, pattern: &str) -> Self {
        self.parameter(name, ParameterIn::Header, false, about, string().pattern(Some(pattern)))
    }

    pub(crate) fn body(mut self, media: Media) -> Self {
        self.bodies.push(media);
        self
    }

    pub(crate) fn optional(mut self, media: Media) -> Self {
        self.body_required = false;
        self.body(media)
    }

    pub(crate) fn answer(mut self, status: u16, about: &'static str, media: Media) -> Self {
        self.answers.push((status, about, media));
        self
    }

    pub(crate) fn empty(mut self, status: u16, about: &'static str) -> Self {
        self.others.push((status, about, false));
        self
    }

    pub(crate) fn refused(mut self, status: u16, about: &'static str) -> Self {
        self.others.push((status, about, true));
        self
    }

    fn operation(&self, problem: &Media) -> OperationBuilder {
        let mut operation = OperationBuilder::new()
            .operation_id(Some(self.id))
            .tag(self.tag)
            .summary(Some(self.title))
            .description(self.about);
        if self.access == Access::Public {
            operation = operation.security(SecurityRequirement::default());
        }
        for parameter in &self.parameters {
            let required = if parameter.required { Required::True } else { Required::False };
            operation = operation.parameter(
                ParameterBuilder::new()
                    .name(&parameter.name)
                    .parameter_in(parameter.place.clone())
                    .required(required)
                    .description(Some(&parameter.about))
                    .schema(Some(parameter.schema.clone())),
            );
        }
        if !self.bodies.is_empty() {
            let required = if self.body_required { Required::True } else { Required::False };
            let body = self.bodies.iter().fold(RequestBodyBuilder::new(), |body, media| {
                body.content(media.name, content(media))
            });
            operation = operation.request_body(Some(body.required(Some(required)).build()));
        }
        let mut responses: BTreeMap<u16, ResponseBuilder> = BTreeMap::new();
        for (status, about, media) in &self.answers {
            let response = responses.remove(status).unwrap_or_default().description(*about);
            responses.insert(*status, response.content(media.name, content(media)));
        }
        for (status, about, told) in &self.others {
            let mut response = ResponseBuilder::new().description(*about);
            if *told {
                response = response.content(problem.name, content(problem));
            }
            responses.insert(*status, response);
        }
        let default = ResponseBuilder::new()
            .description("What failed, why, and what to do.")
            .content(problem.name, content(problem));
        let operation = responses.into_iter().fold(operation, |operation, (status, response)| {
            operation.response(status.to_string(), response.build())
        });
        operation.response("default", default.build())
    }
}

fn content(media: &Media) -> utoipa::openapi::Content {
    ContentBuilder::new().schema(media.schema.clone()).build()
}
