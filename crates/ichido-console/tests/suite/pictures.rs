//! Every page in light, in dark and on a phone: nothing sticks out, nothing is broken. With `ICHIDO_SCREENSHOTS=docs/screenshots` the pictures are
//! kept there.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ichido_test_servers::{Browser, Chromium, Look};

use crate::stage::Stage;

const LOOKS: [(&str, Look); 3] = [
    ("light", Look { width: 1280, height: 900, dark: false, scripts: true }),
    ("dark", Look { width: 1280, height: 900, dark: true, scripts: true }),
    ("phone", Look { width: 390, height: 844, dark: false, scripts: true }),
];

/// No picture is higher.
const HIGHEST: u32 = 1100;

#[tokio::test(flavor = "multi_thread")]
async fn every_page_fits_in_light_dark_and_on_a_phone() {
    let stage = Stage::open().await;
    stage.history().await;
    let failed = stage.failed_order("4711").await;
    for number in 0..11 {
        stage.failed_order(&format!("{}", 5000 + number)).await;
    }
    let message = format!("/message?id={}", failed.to_string().replace('/', "%2F"));
    let pages = [
        ("overview", "/"),
        ("queues", "/queues"),
        ("queue", "/queue?name=invoices"),
        ("message", &message),
        ("failed", "/failed"),
        ("failed-all", "/failed/all?verb=retry"),
        ("processes", "/processes"),
        ("lanes", "/lanes"),
        ("doctor", "/doctor"),
        ("handlers", "/handlers"),
        ("settings", "/settings"),
        ("audit", "/audit"),
        ("login", "/login"),
    ];
    for (name, look) in LOOKS {
        let browser = Browser::open(Chromium::shared(), look).await;
        for (page, path) in pages {
            browser.go(&format!("{}{path}", stage.url)).await;
            let wide = browser.run("return document.documentElement.scrollWidth - innerWidth").await;
            keep(page, name, &browser.picture(look.width, HIGHEST, if look.width > 1000 { 0.8 } else { 1.0 }).await);
            assert_eq!(wide, 0, "{page} is wider than a screen in {name}");
        }
    }
}

fn keep(page: &str, look: &str, picture: &str) {
    let picture = STANDARD.decode(picture).expect("a picture");
    assert!(picture.starts_with(b"\x89PNG"), "{page} in {look} is no picture");
    if let Some(folder) = std::env::var_os("ICHIDO_SCREENSHOTS") {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join(format!("{page}-{look}.png")), picture).expect("a file");
    }
}
