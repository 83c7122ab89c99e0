//! How calls of libibverbs fail, as our errors.

use crate::fabric::FabricError;
use std::ffi::c_int;
use std::io;

/// The error of a call that says its error number by returning it. Drivers differ: most return it
/// positive, `siw` negative, some return -1 and set `errno`.
pub(super) fn returned(code: c_int) -> io::Error {
    if code == -1 {
        return io::Error::last_os_error();
    }
    io::Error::from_raw_os_error(i32::try_from(code.unsigned_abs()).unwrap_or(i32::MAX))
}

/// `Ok` for zero, else the error that `code` stands for.
pub(super) fn check(code: c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(returned(code)) }
}

/// A failed call with a hint at what may mend it (empty, or a sentence).
pub(super) fn failed(call: impl Into<String>, source: io::Error, hint: &str) -> FabricError {
    let hint = if hint.is_empty() { String::new() } else { format!("; {hint}") };
    FabricError::Call { call: call.into(), source, hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sign_of_an_error_number_does_not_matter() {
        assert_eq!(returned(-22).raw_os_error(), Some(22));
        assert_eq!(returned(12).raw_os_error(), Some(12));
        assert!(check(0).is_ok());
    }
}
