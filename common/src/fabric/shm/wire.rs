//! What is said at the door. Every packet has a fixed length, and each byte is checked.
//!
//! | packet | at | bytes | field |
//! | --- | --- | --- | --- |
//! | all | 0 | 4 | magic |
//! | all | 4 | 2 | version |
//! | all | 6 | 2 | kind |
//! | hello (link 1, endpoint 2) | 8 | 16 | token |
//! | ask (3) | 8 | 4 | rkey |
//! | answer (4) | 8 | 4 | 0 granted, 1 no such region, 2 no descriptor to spare |
//! | welcome (5) | 8 | 4 | role |
//! | | 12 | 4 | rkey of the staging ring |
//! | | 16 | 16 | shape: immediates, up, down, staging bytes |

use super::shape::Shape;

const MAGIC: u32 = u32::from_le_bytes(*b"SWsh");
const VERSION: u16 = 1;
const HELLO_LINK: u16 = 1;
const HELLO_ENDPOINT: u16 = 2;
const ASK: u16 = 3;
const ANSWER: u16 = 4;
const WELCOME: u16 = 5;

/// Length of every packet.
pub(super) const PACKET_BYTES: usize = 32;
/// A packet.
pub(super) type Packet = [u8; PACKET_BYTES];
/// Proof of admission.
pub(super) type Token = [u8; 16];

/// What a client says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ToDoor {
    /// The first packet: for a link.
    Link(Token),
    /// The first and only packet: for an endpoint.
    Endpoint(Token),
    /// On a link: the descriptor of a region.
    Ask(u32),
}

/// What a server says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FromDoor {
    /// To an ask, with the descriptor if it is granted.
    Answer(Grant),
    /// To a hello, with an endpoint's descriptors.
    Welcome(Welcome),
}

/// The answer to an ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Grant {
    /// The descriptor comes with it.
    Granted,
    /// No region has that rkey.
    Unknown,
    /// Out of descriptors; later perhaps.
    Busy,
}

/// What an endpoint's client needs to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Welcome {
    /// What the server opened it as; 0 for a link.
    pub(super) role: u32,
    /// Names the staging ring.
    pub(super) staging_rkey: u32,
    /// Where things are.
    pub(super) shape: Shape,
}

fn packet(kind: u16, words: [u32; 6]) -> Packet {
    let mut packet = [0; PACKET_BYTES];
    packet[..4].copy_from_slice(&MAGIC.to_le_bytes());
    packet[4..6].copy_from_slice(&VERSION.to_le_bytes());
    packet[6..8].copy_from_slice(&kind.to_le_bytes());
    for (field, word) in packet[8..].chunks_exact_mut(4).zip(words) {
        field.copy_from_slice(&word.to_le_bytes());
    }
    packet
}

fn unpack(bytes: &[u8]) -> Option<(u16, [u32; 6])> {
    let packet: &Packet = bytes.try_into().ok()?;
    let word = |at: usize| u32::from_le_bytes([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]]);
    let (version, kind) = (word(4) as u16, (word(4) >> 16) as u16);
    let words = std::array::from_fn(|index| word(8 + 4 * index));
    (word(0) == MAGIC && version == VERSION).then_some((kind, words))
}

impl ToDoor {
    pub(super) fn encode(self) -> Packet {
        match self {
            Self::Link(token) => packet(HELLO_LINK, token_words(token)),
            Self::Endpoint(token) => packet(HELLO_ENDPOINT, token_words(token)),
            Self::Ask(rkey) => packet(ASK, [rkey, 0, 0, 0, 0, 0]),
        }
    }

    /// None for anything that [`ToDoor::encode`] cannot have made.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, words) = unpack(bytes)?;
        match (kind, words) {
            (HELLO_LINK, [.., 0, 0]) => Some(Self::Link(token_of(words))),
            (HELLO_ENDPOINT, [.., 0, 0]) => Some(Self::Endpoint(token_of(words))),
            (ASK, [rkey, 0, 0, 0, 0, 0]) => Some(Self::Ask(rkey)),
            _ => None,
        }
    }
}

impl FromDoor {
    pub(super) fn encode(self) -> Packet {
        match self {
            Self::Answer(grant) => packet(ANSWER, [grant as u32, 0, 0, 0, 0, 0]),
            Self::Welcome(Welcome { role, staging_rkey, shape }) => {
                packet(WELCOME, [role, staging_rkey, shape.immediates, shape.up, shape.down, shape.staging_bytes])
            }
        }
    }

    /// None for anything that [`FromDoor::encode`] cannot have made.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        match unpack(bytes)? {
            (ANSWER, [grant, 0, 0, 0, 0, 0]) => {
                let grant = [Grant::Granted, Grant::Unknown, Grant::Busy].into_iter().find(|&g| g as u32 == grant)?;
                Some(Self::Answer(grant))
            }
            (WELCOME, [role, staging_rkey, immediates, up, down, staging_bytes]) => {
                let shape = Shape { immediates, up, down, staging_bytes };
                Some(Self::Welcome(Welcome { role, staging_rkey, shape }))
            }
            _ => None,
        }
    }
}

fn token_words(token: Token) -> [u32; 6] {
    std::array::from_fn(|index| match token.get(4 * index..4 * index + 4) {
        Some(&[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]),
        _ => 0,
    })
}

fn token_of(words: [u32; 6]) -> Token {
    std::array::from_fn(|index| words[index / 4].to_le_bytes()[index % 4])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn asked(words: (u8, [u8; 16], u32)) -> ToDoor {
        match words.0 % 3 {
            0 => ToDoor::Link(words.1),
            1 => ToDoor::Endpoint(words.1),
            _ => ToDoor::Ask(words.2),
        }
    }

    proptest! {
        #[test]
        fn what_was_said_is_heard(words: (u8, [u8; 16], u32)) {
            prop_assert_eq!(ToDoor::decode(&asked(words).encode()), Some(asked(words)));
        }

        #[test]
        fn nothing_else_is_heard(words: (u8, [u8; 16], u32), at in 0..PACKET_BYTES, bit in 0..8u8) {
            let mut bytes = asked(words).encode();
            bytes[at] ^= 1 << bit;
            prop_assert!(ToDoor::decode(&bytes).is_none_or(|heard| heard.encode() == bytes));
            prop_assert!(ToDoor::decode(&bytes[..at]).is_none());
        }

        #[test]
        fn any_bytes_are_answered(bytes: Vec<u8>) {
            prop_assert!(ToDoor::decode(&bytes).is_none_or(|heard| heard.encode()[..] == bytes));
            prop_assert!(FromDoor::decode(&bytes).is_none_or(|heard| heard.encode()[..] == bytes));
        }

        #[test]
        fn a_welcome_survives(words: [u32; 6]) {
            let shape = Shape { immediates: words[2], up: words[3], down: words[4], staging_bytes: words[5] };
            let said = FromDoor::Welcome(Welcome { role: words[0], staging_rkey: words[1], shape });
            prop_assert_eq!(FromDoor::decode(&said.encode()), Some(said));
        }
    }

    #[test]
    fn golden() {
        let hello = ToDoor::Endpoint(*b"0123456789abcdef").encode();
        assert_eq!(&hello, b"SWsh\x01\0\x02\x000123456789abcdef\0\0\0\0\0\0\0\0");
        assert_eq!(FromDoor::decode(&FromDoor::Answer(Grant::Busy).encode()), Some(FromDoor::Answer(Grant::Busy)));
    }
}
