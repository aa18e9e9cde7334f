// SPDX-License-Identifier: Apache-2.0
//! A plugin's op as a Rust type: `fk::op!` makes the C functions. Errors and panics become statuses
//! with a sentence; none of them leaves the plugin.
use crate::abi;
pub use crate::abi::{fk_claims as Claims, fk_host as Host, *};
use std::borrow::Cow;
use std::os::raw::{c_char, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe, Location};
use std::sync::{Mutex, Once};
use std::thread::ThreadId;

/// A refusal of supports(), or a failure: one sentence.
#[derive(Debug)]
pub struct Fault {
    code: i32,
    line: u32,
    text: Cow<'static, str>,
}
impl Fault {
    /// supports() refuses the case. The baseline computes it instead.
    #[track_caller]
    pub fn refuse(text: impl Into<Cow<'static, str>>) -> Fault {
        Fault { code: UNSUPPORTED, line: Location::caller().line(), text: text.into() }
    }
    /// Any other failure.
    #[track_caller]
    pub fn failed(text: impl Into<Cow<'static, str>>) -> Fault {
        Fault { code: FAILED, line: Location::caller().line(), text: text.into() }
    }
    fn report(&self, error: *mut abi::fk_error) -> i32 {
        let error = match unsafe { error.as_mut() } {
            Some(error) => error,
            None => return self.code,
        };
        let room = error.text.len() - 1;
        let mut end = self.text.len().min(room);
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        for (to, from) in error.text.iter_mut().zip(self.text.as_bytes()[..end].iter()) {
            *to = *from as c_char;
        }
        error.text[end] = 0;
        error.code = self.code;
        error.line = self.line as i32;
        self.code
    }
}
pub type Done = Result<(), Fault>;

/// Bytes of each kind of memory that a case needs (fk/memory.h).
#[derive(Clone, Copy, Debug, Default)]
pub struct Need {
    pub scratch: usize,
    pub packed: usize,
    pub persistent: usize,
    pub plan: usize,
}
impl Need {
    #[doc(hidden)]
    pub fn write(&self, to: &mut abi::fk_need) {
        to.scratch = self.scratch as i64;
        to.packed = self.packed as i64;
        to.persistent = self.persistent as i64;
        to.plan = self.plan as i64;
    }
}

/// Repacked weights: to be written, or written already by an equal instance.
pub enum Packed<'a> {
    Fill(&'a mut [u8]),
    Ready(&'a [u8]),
}
/// Memory of an instance, valid as long as the kernel.
pub struct Memory<'a> {
    pub packed: Packed<'a>,
    /// Zeroed once.
    pub persistent: &'a mut [u8],
}
impl<'a> Memory<'a> {
    #[doc(hidden)]
    pub unsafe fn of(memory: &abi::fk_memory) -> Memory<'a> {
        let packed = bytes_mut(memory.packed, memory.packed_bytes);
        Memory {
            packed: if memory.packed_ready != 0 { Packed::Ready(packed) } else { Packed::Fill(packed) },
            persistent: bytes_mut(memory.persistent, memory.persistent_bytes),
        }
    }
}
/// What forward() gets beside its arguments.
pub struct Ctx<'c> {
    /// Content undefined.
    pub scratch: &'c mut [u8],
    /// The blob of plan().
    pub plan: &'c [u8],
}
impl<'c> Ctx<'c> {
    #[doc(hidden)]
    pub unsafe fn of(ctx: &abi::fk_ctx) -> Ctx<'c> {
        Ctx {
            scratch: bytes_mut(ctx.scratch, ctx.scratch_bytes),
            plan: bytes_mut(ctx.plan as *mut c_void, ctx.plan_bytes),
        }
    }
    /// The scratch as elements.
    #[track_caller]
    pub fn scratch_of<T: crate::views::Element>(&mut self) -> &mut [T] {
        elements_mut(self.scratch)
    }
}
/// Bytes as elements. A panic if they are not aligned for T.
#[track_caller]
pub fn elements_mut<T: crate::views::Element>(bytes: &mut [u8]) -> &mut [T] {
    let (before, all, _) = unsafe { bytes.align_to_mut::<T>() };
    assert!(before.is_empty(), "the bytes are not aligned for this type");
    all
}
#[track_caller]
pub fn elements_of<T: crate::views::Element>(bytes: &[u8]) -> &[T] {
    let (before, all, _) = unsafe { bytes.align_to::<T>() };
    assert!(before.is_empty(), "the bytes are not aligned for this type");
    all
}
#[doc(hidden)]
pub unsafe fn bytes_mut<'b>(at: *mut c_void, count: i64) -> &'b mut [u8] {
    if at.is_null() || count <= 0 {
        return &mut [];
    }
    std::slice::from_raw_parts_mut(at as *mut u8, count as usize)
}

impl Host {
    /// Most CPU threads that the op may use, the caller's included.
    pub fn threads(&self) -> usize {
        self.cpu_threads.max(1) as usize
    }
    /// Logs one line. A plugin prints in no other way.
    pub fn log(&self, severity: i32, text: &str) {
        if let (Some(log), Ok(text)) = (self.log, std::ffi::CString::new(text)) {
            unsafe { log(self, severity, text.as_ptr()) }
        }
    }
}

unsafe impl Sync for Claims {}
/// Claims of a CPU op that is deterministic and batch invariant, and sums in f32.
pub const CPU_CLAIMS: Claims = Claims {
    struct_size: std::mem::size_of::<Claims>() as u32,
    device_type: CPU,
    graph: GRAPH_ALWAYS,
    deterministic: 1,
    batch_invariant: 1,
    accumulate: ACCUMULATE_F32,
    side_streams: 0,
    sm_count: 0,
    sm: std::ptr::null(),
};

// The last panic on the failing thread, or the first on another one: a panic of a helper thread
// causes a later panic without its words.
static PANIC: Mutex<Option<(ThreadId, Fault)>> = Mutex::new(None);

fn note_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            let words = info.payload().downcast_ref::<&str>().map(|text| text.to_string());
            let words = words.or_else(|| info.payload().downcast_ref::<String>().cloned());
            let (place, line) = match info.location() {
                Some(at) => (format!(" at {}:{}", at.file(), at.line()), at.line()),
                None => (String::new(), 0),
            };
            let text = format!("panic{}: {}", place, words.unwrap_or_else(|| "no words".into()));
            let own = std::thread::current().id();
            if let Ok(mut last) = PANIC.lock() {
                if last.as_ref().map_or(true, |(thread, _)| *thread == own) {
                    *last = Some((own, Fault { code: FAILED, line, text: text.into() }));
                }
            }
        }));
    });
}

/// Runs `body` and turns an error or a panic into a status, with its sentence in `error`.
#[doc(hidden)]
pub fn guard(error: *mut abi::fk_error, body: impl FnOnce() -> Done) -> i32 {
    note_panics();
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => OK,
        Ok(Err(fault)) => fault.report(error),
        Err(_) => {
            let noted = PANIC.lock().ok().and_then(|mut last| last.take());
            noted.map_or_else(|| Fault::failed("panic"), |(_, fault)| fault).report(error)
        }
    }
}

/// `fk::op!(OP, KERNEL)` makes the type KERNEL this plugin's implementation of OP. More words may
/// follow: `edition = N` for a contract with several editions, then `plan` for a kernel with plan().
#[macro_export]
macro_rules! op {
    ($op:ident, $kernel:ident $(, edition = $edition:literal)?) => { $crate::op!(@ $op, $kernel,); };
    ($op:ident, $kernel:ident $(, edition = $edition:literal)?, plan) => {
        $crate::op!(@ $op, $kernel,
            #[export_name = concat!("fk_rust_", stringify!($op), "_plan")]
            unsafe extern "C" fn plan(own: *mut c_void, step: *const c_void, blob: *mut c_void, bytes: *mut i64, error: *mut fk_error) -> i32 {
                $crate::$op::entry::plan::<$kernel>(own, step, blob, bytes, error)
            });
    };
    (@ $op:ident, $kernel:ident, $($plan:item)?) => {
        const _: () = {
            use std::os::raw::c_void;
            use $crate::abi::{fk_claims, fk_ctx, fk_error, fk_host, fk_memory, fk_need};
            use $crate::$op::{entry, Kernel};
            #[export_name = concat!("fk_rust_", stringify!($op), "_claims")]
            static CLAIMS: fk_claims = <$kernel as Kernel<'static>>::CLAIMS;
            #[export_name = concat!("fk_rust_", stringify!($op), "_supports")]
            unsafe extern "C" fn supports(init: *const c_void, weights: *const c_void, max: *const c_void, need: *mut fk_need, why: *mut fk_error) -> i32 {
                entry::supports::<$kernel>(init, weights, max, need, why)
            }
            #[export_name = concat!("fk_rust_", stringify!($op), "_create")]
            unsafe extern "C" fn create(host: *const fk_host, init: *const c_void, weights: *const c_void, made: *mut *mut c_void, error: *mut fk_error) -> i32 {
                entry::create::<$kernel>(host, init, weights, made, error)
            }
            #[export_name = concat!("fk_rust_", stringify!($op), "_prepare")]
            unsafe extern "C" fn prepare(own: *mut c_void, max: *const c_void, memory: *const fk_memory, error: *mut fk_error) -> i32 {
                entry::prepare::<$kernel>(own, max, memory, error)
            }
            #[export_name = concat!("fk_rust_", stringify!($op), "_forward")]
            unsafe extern "C" fn forward(own: *mut c_void, args: *const c_void, ctx: *const fk_ctx) -> i32 {
                entry::forward::<$kernel>(own, args, ctx)
            }
            #[export_name = concat!("fk_rust_", stringify!($op), "_destroy")]
            unsafe extern "C" fn destroy(own: *mut c_void) {
                entry::destroy::<$kernel>(own)
            }
            #[export_name = concat!("fk_rust_", stringify!($op), "_reset")]
            unsafe extern "C" fn reset(own: *mut c_void, error: *mut fk_error) -> i32 {
                entry::reset::<$kernel>(own, error)
            }
            $($plan)?
        };
    };
}
/// `fk::plugin!("NAME", "VERSION")`, once in the sources of a plugin, names it.
#[macro_export]
macro_rules! plugin {
    ($name:literal, $version:literal) => {
        const _: (&str, &str) = ($name, $version);
    };
}
