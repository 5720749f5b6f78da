use foveate_core::geometry::extent::Extent;

use super::{Planes, Scene};

const SIZES: [(u32, u32); 6] = [(1280, 720), (1920, 1080), (640, 481), (99, 67), (16, 16), (1, 1)];

/// Luma and chroma of a picture.
fn drawn(scene: &Scene, (width, height): (u32, u32), number: u64) -> Vec<u8> {
    let (columns, rows) = (2 * width.div_ceil(2) as usize, height.div_ceil(2) as usize);
    let luma_bytes = width as usize * height as usize;
    let mut bytes = vec![0; luma_bytes + columns * rows];
    let (luma, chroma) = bytes.split_at_mut(luma_bytes);
    let (luma_stride, chroma_stride) = (width as usize, columns);
    scene.draw(number, Planes { luma, luma_stride, chroma, chroma_stride });
    bytes
}

fn scene((width, height): (u32, u32)) -> Scene {
    Scene::new(Extent::new(width, height))
}

/// FNV-1a, 64 bits.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Recordings of the scene are compared across machines.
#[test]
fn pictures_have_the_same_bytes_everywhere() {
    let size = SIZES[0];
    let scene = scene(size);
    let hashes = [0, 100, 400].map(|number| hash(&drawn(&scene, size, number)));
    let expected = [0xcd42_f0b3_4c10_3417, 0x300d_9e6c_5a89_41cb, 0x0213_ae26_a291_87e1];
    assert_eq!(hashes, expected);
}

#[test]
fn any_size_and_any_number_is_drawn() {
    for size in SIZES {
        let scene = scene(size);
        for number in [0, 1, 77, 299, 359, 10_000, u64::MAX] {
            assert!(drawn(&scene, size, number).iter().all(|sample| (16..=240).contains(sample)));
        }
    }
}

/// The scene shows that the daemon does not process still tiles again.
#[test]
fn a_picture_differs_from_the_one_before_in_few_tiles() {
    let size = (1280, 720);
    let scene = scene(size);
    let mut most = 0;
    for number in (0..900).step_by(30) {
        let [before, after] = [0, 1].map(|more| drawn(&scene, size, number + more));
        let changed = |(x, y): &(usize, usize)| {
            (y * 32..720.min(y * 32 + 32)).any(|row| {
                let columns = row * 1280 + x * 32..row * 1280 + x * 32 + 32;
                before[columns.clone()] != after[columns]
            })
        };
        let tiles = (0..23).flat_map(|y| (0..40).map(move |x| (x, y)));
        let count = tiles.filter(changed).count();
        assert!(0 < count, "somebody walks after picture {number}");
        most = most.max(count);
    }
    assert!(most <= 920 / 5, "{most} of 920");
}
