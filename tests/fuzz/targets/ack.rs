#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    sidewire_tests::fuzz::ack::run(bytes);
});
