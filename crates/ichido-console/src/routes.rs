//! Routes, each with the role that it asks for. The role is not written beside a route: it is the first argument of its handler,
//! [`As<R>`](crate::access::As) or [`Public`], and a handler without either does not compile here. A test walks all of them.

use axum::{
    Router,
    handler::Handler,
    routing::{MethodRouter, delete, get, post},
};

use crate::{
    Console, Role,
    access::{As, IsRole, Public},
};

/// A route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteInfo {
    /// Its method.
    pub method: &'static str,
    /// Its path, with `{name}` where anything may stand.
    pub path: &'static str,
    /// Who may use it; none: everybody.
    pub role: Option<Role>,
}

/// Some routes of the console.
#[derive(Default)]
pub struct Routes {
    pub(crate) router: Router<Console>,
    pub(crate) infos: Vec<RouteInfo>,
}

/// The arguments of a handler whose first one says who may call it.
pub trait Guarded {
    /// Who may.
    const ROLE: Option<Role>;
}

macro_rules! guarded {
    ($($more:ident),*) => {
        impl<M, R: IsRole, $($more),*> Guarded for (M, As<R>, $($more,)*) {
            const ROLE: Option<Role> = Some(R::ROLE);
        }

        impl<M, $($more),*> Guarded for (M, Public, $($more,)*) {
            const ROLE: Option<Role> = None;
        }
    };
}

guarded!();
guarded!(A);
guarded!(A, B);
guarded!(A, B, C);

impl Routes {
    /// No routes yet.
    #[must_use]
    pub fn new() -> Self {
        Routes::default()
    }

    /// Answers GET and HEAD. It must change nothing.
    #[must_use]
    pub fn get<T: Guarded + 'static, H: Handler<T, Console>>(self, path: &'static str, handler: H) -> Self {
        self.add("GET", path, T::ROLE, get(handler))
    }

    /// Answers POST.
    #[must_use]
    pub fn post<T: Guarded + 'static, H: Handler<T, Console>>(self, path: &'static str, handler: H) -> Self {
        self.add("POST", path, T::ROLE, post(handler))
    }

    /// Answers DELETE.
    #[must_use]
    pub fn delete<T: Guarded + 'static, H: Handler<T, Console>>(self, path: &'static str, handler: H) -> Self {
        self.add("DELETE", path, T::ROLE, delete(handler))
    }

    /// These and those.
    #[must_use]
    pub fn merge(mut self, other: Routes) -> Self {
        self.infos.extend(other.infos);
        Routes { router: self.router.merge(other.router), infos: self.infos }
    }

    fn add(
        mut self,
        method: &'static str,
        path: &'static str,
        role: Option<Role>,
        methods: MethodRouter<Console>,
    ) -> Self {
        self.infos.push(RouteInfo { method, path, role });
        Routes { router: self.router.route(path, methods), infos: self.infos }
    }
}
