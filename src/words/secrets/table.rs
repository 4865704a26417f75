//! The table of the known kinds of keys: name, shape, and who publishes the shape.
//!
//! It is data: `shapes.rs` reads it, for the redaction of what tools give (`hook/redact.rs`) and of what a provider's server says
//! (`model/redact.rs`). A new kind is a new row here, and a row in the test `secrets/tests.rs`.
//!
//! The sources are the public lists of scanners: the rules of gitleaks, the detectors of trufflehog, the patterns of GitHub's secret
//! scanning, the keywords of detect-secrets, and the pages of the vendors. A length is a lower bound, a little below what is
//! published, because vendors lengthen their keys. A row must not be so loose that it takes hashes, ids or words: the test of
//! harmless texts holds it to that.

use Class::{Alnum, Base64, Dotted, Hex, Password, Path, Percent, Token, Upper, Word};
use Mark::{After, Anywhere, Assigned, AtAnEdge, Named};
use Need::{Any, Digit, Mixed, Secret, Set};
use Source::{DetectSecrets, GitHub, Gitleaks, Trufflehog, Vendor};

/// A kind of key: what people are shown for it, who publishes its shape, how it is marked, the characters of the key, the fewest of
/// them, and what they need.
pub(super) struct Row(
    pub(super) &'static str,
    #[allow(dead_code, reason = "a fact for the reader of the table")] pub(super) Source,
    pub(super) Mark,
    pub(super) Class,
    pub(super) usize,
    pub(super) Need,
);

/// Who publishes a shape.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    Gitleaks,
    Trufflehog,
    GitHub,
    DetectSecrets,
    Vendor,
}

/// The sign of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// The key begins with this text, anywhere.
    Anywhere(&'static str),
    /// The key begins with this text, and no letter or digit precedes it: the text is short, and would be found by chance in
    /// base64 and in words.
    AtAnEdge(&'static str),
    /// The key follows this text directly, or a quote after it. The text stays.
    After(&'static str),
    /// The key follows this name and a separator. Capitals and small letters are the same. The name stays.
    Named(&'static str),
    /// As [`Mark::Named`], and the separator has an equals sign, a colon or the end of a tag in it.
    Assigned(&'static str),
}

impl Mark {
    pub(super) fn text(self) -> &'static str {
        match self {
            Anywhere(text) | AtAnEdge(text) | After(text) | Named(text) | Assigned(text) => text,
        }
    }

    /// Whether capitals and small letters of the text are the same.
    pub(super) fn any_case(self) -> bool {
        matches!(self, Named(_) | Assigned(_))
    }
}

/// The characters that a key, or a part of one, is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// No character: the key has ended.
    Nothing,
    /// `0-9 a-f A-F`
    Hex,
    /// `A-Z 0-9`
    Upper,
    /// `A-Z a-z 0-9`
    Alnum,
    /// `A-Z a-z 0-9 _ -`
    Word,
    /// `A-Z a-z 0-9 _ - .`
    Dotted,
    /// `A-Z a-z 0-9 _ - / @ .`
    Path,
    /// `A-Z a-z 0-9 + / =`
    Base64,
    /// `A-Z a-z 0-9 _ - . ~ + / =`
    Token,
    /// The same and `%`.
    Percent,
    /// What is printed and separates nothing: no space, no quote, no `, ; & < > \`
    Password,
}

impl Class {
    pub(crate) fn has(self, byte: u8) -> bool {
        let also = |others: &[u8]| byte.is_ascii_alphanumeric() || others.contains(&byte);
        match self {
            Class::Nothing => false,
            Hex => byte.is_ascii_hexdigit(),
            Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Alnum => byte.is_ascii_alphanumeric(),
            Word => also(b"_-"),
            Dotted => also(b"_-."),
            Path => also(b"_-/@."),
            Base64 => also(b"+/="),
            Token => also(b"_-.~+/="),
            Percent => also(b"_-.~+/=%"),
            Password => byte >= 0x80 || byte.is_ascii_graphic() && !b"\"'`,;&<>\\".contains(&byte),
        }
    }
}

/// What distinguishes a key from a word.
#[derive(Clone, Copy, Debug)]
pub(super) enum Need {
    /// Nothing: the mark says enough.
    Any,
    /// A digit.
    Digit,
    /// A digit, a capital and a small letter.
    Mixed,
    /// It is a value, and not a place for one: `$PASSWORD`, `{password}`, `<password>`, `password`.
    Set,
    /// The same, and a digit or a sign of passwords is in it, and no sign of a call.
    Secret,
}

impl Need {
    pub(super) fn is_met(self, bytes: &[u8]) -> bool {
        let any = |is: fn(&u8) -> bool| bytes.iter().any(is);
        let is_value = || {
            !matches!(bytes, [b'$' | b'{' | b'<' | b'*' | b'(' | b'[' | b'.', ..] | [b'%', b's' | b'(', ..])
                && !bytes.eq_ignore_ascii_case(b"password")
                && !bytes.eq_ignore_ascii_case(b"changeme")
        };
        match self {
            Any => true,
            Digit => any(u8::is_ascii_digit),
            Mixed => any(u8::is_ascii_digit) && any(u8::is_ascii_uppercase) && any(u8::is_ascii_lowercase),
            Set => is_value(),
            Secret => {
                let is_address = bytes.windows(3).any(|three| three == b"://");
                let is_call = any(|byte| b"([{".contains(byte));
                is_value()
                    && !is_address
                    && !is_call
                    && any(|byte| byte.is_ascii_digit() || b"!#@$%^*?~".contains(byte))
            }
        }
    }
}

/// All of them. Of two that fit, the first one names what is taken out.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    // Providers of models.
    Row("Anthropic key", Gitleaks, Anywhere("sk-ant-"), Word, 20, Mixed),
    Row("OpenAI key", Gitleaks, Anywhere("sk-proj-"), Word, 20, Mixed),
    Row("OpenAI key", Gitleaks, Anywhere("sk-svcacct-"), Word, 20, Mixed),
    Row("OpenAI key", Gitleaks, Anywhere("sk-admin-"), Word, 20, Mixed),
    Row("OpenRouter key", GitHub, Anywhere("sk-or-v1-"), Alnum, 32, Digit),
    Row("Langfuse key", GitHub, AtAnEdge("sk-lf-"), Word, 32, Digit),
    Row("Langfuse key", GitHub, AtAnEdge("pk-lf-"), Word, 32, Digit),
    Row("OpenAI key", Gitleaks, AtAnEdge("sk-"), Alnum, 20, Digit),
    Row("API key", Vendor, AtAnEdge("sk-"), Word, 32, Mixed),
    Row("ElevenLabs key", Trufflehog, AtAnEdge("sk_"), Hex, 40, Digit),
    Row("Groq key", GitHub, AtAnEdge("gsk_"), Alnum, 40, Any),
    Row("xAI key", GitHub, AtAnEdge("xai-"), Alnum, 40, Any),
    Row("Hugging Face token", Gitleaks, AtAnEdge("hf_"), Alnum, 30, Any),
    Row("Hugging Face token", Gitleaks, AtAnEdge("api_org_"), Alnum, 30, Any),
    Row("Replicate token", GitHub, AtAnEdge("r8_"), Alnum, 30, Digit),
    Row("Perplexity key", Gitleaks, AtAnEdge("pplx-"), Alnum, 32, Any),
    Row("Cerebras key", Vendor, AtAnEdge("csk-"), Alnum, 32, Digit),
    Row("Fireworks key", GitHub, AtAnEdge("fw_"), Alnum, 22, Mixed),
    Row("Together key", Vendor, AtAnEdge("tgp_v1_"), Word, 32, Any),
    Row("NVIDIA key", Trufflehog, AtAnEdge("nvapi-"), Word, 40, Any),
    Row("Voyage key", Vendor, AtAnEdge("pa-"), Word, 40, Mixed),
    Row("Jina key", Vendor, AtAnEdge("jina_"), Word, 40, Any),
    Row("Tavily key", Vendor, AtAnEdge("tvly-"), Word, 24, Digit),
    Row("Firecrawl key", Vendor, AtAnEdge("fc-"), Hex, 32, Digit),
    Row("Pinecone key", GitHub, AtAnEdge("pcsk_"), Word, 40, Any),
    Row("LangSmith key", GitHub, AtAnEdge("lsv2_"), Word, 32, Any),
    Row("Vercel key", Vendor, AtAnEdge("vck_"), Word, 24, Digit),
    // Forges and registries.
    Row("GitHub token", Gitleaks, Anywhere("ghp_"), Alnum, 30, Any),
    Row("GitHub token", Gitleaks, Anywhere("gho_"), Alnum, 30, Any),
    Row("GitHub token", Gitleaks, Anywhere("ghu_"), Alnum, 30, Any),
    Row("GitHub token", Gitleaks, Anywhere("ghs_"), Alnum, 30, Any),
    Row("GitHub token", Gitleaks, Anywhere("ghr_"), Alnum, 30, Any),
    Row("GitHub token", Gitleaks, Anywhere("github_pat_"), Word, 30, Digit),
    Row("GitLab token", Gitleaks, Anywhere("glpat-"), Dotted, 20, Any),
    Row("GitLab token", Gitleaks, Anywhere("glptt-"), Dotted, 20, Any),
    Row("GitLab token", Gitleaks, Anywhere("gldt-"), Dotted, 20, Any),
    Row("GitLab token", Gitleaks, Anywhere("glrt-"), Dotted, 20, Any),
    Row("GitLab token", Gitleaks, AtAnEdge("glcbt-"), Dotted, 20, Any),
    Row("GitLab token", Gitleaks, AtAnEdge("glft-"), Dotted, 20, Any),
    Row("GitLab token", Gitleaks, AtAnEdge("glsoat-"), Dotted, 20, Any),
    Row("GitLab token", Gitleaks, AtAnEdge("glagent-"), Dotted, 20, Any),
    Row("GitLab token", Gitleaks, AtAnEdge("gloas-"), Dotted, 20, Any),
    Row("GitLab token", Gitleaks, AtAnEdge("GR1348941"), Word, 20, Any),
    Row("Bitbucket token", GitHub, AtAnEdge("ATBB"), Alnum, 24, Mixed),
    Row("Atlassian token", Gitleaks, AtAnEdge("ATATT3"), Token, 60, Any),
    Row("Atlassian token", GitHub, AtAnEdge("ATCTT3"), Token, 60, Any),
    Row("npm token", Gitleaks, Anywhere("npm_"), Alnum, 30, Any),
    Row("PyPI token", Gitleaks, Anywhere("pypi-"), Word, 40, Mixed),
    Row("RubyGems token", Gitleaks, AtAnEdge("rubygems_"), Hex, 40, Any),
    Row("crates.io token", Trufflehog, AtAnEdge("cio"), Alnum, 32, Mixed),
    Row("NuGet key", Trufflehog, AtAnEdge("oy2"), Alnum, 43, Digit),
    Row("Docker token", GitHub, AtAnEdge("dckr_pat_"), Word, 24, Any),
    Row("Docker token", GitHub, AtAnEdge("dckr_oat_"), Word, 24, Any),
    Row("JFrog key", Gitleaks, AtAnEdge("AKCp"), Alnum, 60, Any),
    // Clouds and hosting.
    Row("AWS key id", Gitleaks, AtAnEdge("AKIA"), Upper, 16, Any),
    Row("AWS key id", Gitleaks, AtAnEdge("ASIA"), Upper, 16, Any),
    Row("AWS key id", Gitleaks, AtAnEdge("ABIA"), Upper, 16, Digit),
    Row("AWS key id", Gitleaks, AtAnEdge("ACCA"), Upper, 16, Digit),
    Row("AWS key", Gitleaks, AtAnEdge("ABSK"), Base64, 100, Mixed),
    Row("AWS key", Gitleaks, AtAnEdge("bedrock-api-key-"), Base64, 40, Any),
    Row("AWS secret key", Gitleaks, Named("secret_access_key"), Base64, 40, Any),
    Row("AWS secret key", Gitleaks, Named("secret-access-key"), Base64, 40, Any),
    Row("AWS secret key", Gitleaks, Named("secret access key"), Base64, 40, Any),
    Row("AWS secret key", Gitleaks, Named("secretaccesskey"), Base64, 40, Any),
    Row("AWS session token", Trufflehog, Named("session_token"), Base64, 40, Any),
    Row("AWS session token", Trufflehog, Named("sessiontoken"), Base64, 40, Any),
    Row("AWS session token", Vendor, Named("x-amz-security-token"), Percent, 40, Any),
    Row("AWS signature", Vendor, Named("x-amz-signature"), Hex, 64, Any),
    Row("Google key", Gitleaks, AtAnEdge("AIza"), Word, 35, Any),
    Row("Google client secret", GitHub, Anywhere("GOCSPX-"), Word, 20, Any),
    Row("Google token", GitHub, AtAnEdge("ya29."), Dotted, 20, Any),
    Row("Google token", GitHub, AtAnEdge("1//0"), Word, 40, Mixed),
    Row("Google key id", Trufflehog, Assigned("private_key_id"), Hex, 32, Any),
    Row("Firebase token", GitHub, Anywhere(":APA91b"), Word, 100, Any),
    Row("Azure secret", Gitleaks, Anywhere("Q~"), Token, 31, Mixed),
    Row("Azure key", GitHub, Assigned("accountkey"), Base64, 40, Any),
    Row("Azure key", GitHub, Assigned("sharedaccesskey"), Base64, 40, Any),
    Row("Azure signature", GitHub, After("?sig="), Percent, 32, Any),
    Row("Azure signature", GitHub, After("&sig="), Percent, 32, Any),
    Row("DigitalOcean token", Gitleaks, Anywhere("dop_v1_"), Hex, 40, Any),
    Row("DigitalOcean token", Gitleaks, Anywhere("doo_v1_"), Hex, 40, Any),
    Row("DigitalOcean token", Gitleaks, Anywhere("dor_v1_"), Hex, 40, Any),
    Row("Heroku key", Gitleaks, AtAnEdge("HRKU-"), Word, 32, Any),
    Row("Cloudflare key", Gitleaks, AtAnEdge("v1.0-"), Word, 100, Digit),
    Row("Alibaba key id", Gitleaks, AtAnEdge("LTAI"), Alnum, 16, Mixed),
    Row("Tencent key id", GitHub, AtAnEdge("AKID"), Alnum, 32, Mixed),
    Row("Yandex key", Gitleaks, AtAnEdge("AQVN"), Word, 35, Mixed),
    Row("Fly token", Gitleaks, AtAnEdge("fm1r_"), Base64, 60, Any),
    Row("Fly token", Gitleaks, AtAnEdge("fm2_"), Base64, 60, Any),
    Row("Fly token", Gitleaks, AtAnEdge("fo1_"), Word, 40, Any),
    Row("Netlify token", GitHub, AtAnEdge("nfp_"), Alnum, 32, Any),
    Row("Render key", Trufflehog, AtAnEdge("rnd_"), Alnum, 24, Mixed),
    Row("Supabase key", GitHub, AtAnEdge("sbp_"), Hex, 40, Any),
    Row("Supabase key", GitHub, AtAnEdge("sb_secret_"), Word, 24, Any),
    Row("PlanetScale token", Gitleaks, AtAnEdge("pscale_"), Token, 32, Any),
    Row("Neon key", Trufflehog, AtAnEdge("napi_"), Alnum, 40, Digit),
    Row("Databricks token", Gitleaks, AtAnEdge("dapi"), Hex, 32, Digit),
    Row("Terraform token", Gitleaks, Anywhere(".atlasv1."), Token, 50, Any),
    Row("Vault token", Gitleaks, AtAnEdge("hvs."), Word, 24, Digit),
    Row("Vault token", Gitleaks, AtAnEdge("hvb."), Word, 24, Digit),
    Row("Pulumi token", Gitleaks, AtAnEdge("pul-"), Hex, 40, Any),
    Row("Doppler token", Gitleaks, AtAnEdge("dp.pt."), Alnum, 32, Any),
    Row("Doppler token", GitHub, AtAnEdge("dp.st."), Dotted, 32, Any),
    Row("Tailscale key", GitHub, AtAnEdge("tskey-"), Word, 20, Digit),
    // Chat, mail and telephone.
    Row("Slack token", Gitleaks, Anywhere("xoxb-"), Word, 10, Digit),
    Row("Slack token", Gitleaks, Anywhere("xoxp-"), Word, 10, Digit),
    Row("Slack token", Gitleaks, Anywhere("xoxa-"), Word, 10, Digit),
    Row("Slack token", Gitleaks, Anywhere("xoxr-"), Word, 10, Digit),
    Row("Slack token", Gitleaks, Anywhere("xoxs-"), Word, 10, Digit),
    Row("Slack token", Gitleaks, Anywhere("xoxe-"), Word, 10, Digit),
    Row("Slack token", Gitleaks, Anywhere("xoxe."), Dotted, 10, Digit),
    Row("Slack token", Trufflehog, Anywhere("xoxd-"), Percent, 10, Digit),
    Row("Slack token", Gitleaks, Anywhere("xapp-"), Word, 10, Digit),
    Row("Slack webhook", Gitleaks, After("hooks.slack.com/services/"), Path, 24, Any),
    Row("Slack webhook", Gitleaks, After("hooks.slack.com/workflows/"), Path, 24, Any),
    Row("Slack webhook", Gitleaks, After("hooks.slack.com/triggers/"), Path, 24, Any),
    Row("Discord webhook", Trufflehog, After("discord.com/api/webhooks/"), Path, 40, Any),
    Row("Discord webhook", Trufflehog, After("discordapp.com/api/webhooks/"), Path, 40, Any),
    Row("Discord webhook", Trufflehog, After("discord.com/api/v10/webhooks/"), Path, 40, Any),
    Row("Teams webhook", Gitleaks, After(".webhook.office.com/webhookb2/"), Path, 36, Any),
    Row("Teams webhook", Trufflehog, After("outlook.office.com/webhook/"), Path, 36, Any),
    Row("Zapier webhook", Trufflehog, After("hooks.zapier.com/hooks/catch/"), Path, 10, Any),
    Row("IFTTT webhook", Trufflehog, After("/with/key/"), Word, 20, Any),
    Row("Feishu webhook", Vendor, After("/open-apis/bot/v2/hook/"), Word, 32, Any),
    Row("WeCom webhook", Vendor, After("/cgi-bin/webhook/send?key="), Word, 32, Any),
    Row("Telegram token", Gitleaks, Anywhere(":AA"), Word, 33, Mixed),
    Row("SendGrid key", Gitleaks, AtAnEdge("SG."), Dotted, 50, Digit),
    Row("Mailgun key", Gitleaks, AtAnEdge("key-"), Hex, 32, Digit),
    Row("Brevo key", Gitleaks, AtAnEdge("xkeysib-"), Word, 60, Any),
    Row("Brevo key", Gitleaks, AtAnEdge("xsmtpsib-"), Word, 60, Any),
    Row("Resend key", Trufflehog, AtAnEdge("re_"), Word, 28, Mixed),
    Row("MailerSend key", Trufflehog, AtAnEdge("mlsn."), Hex, 40, Any),
    Row("Twilio key", Gitleaks, AtAnEdge("SK"), Hex, 32, Digit),
    Row("Twilio id", Trufflehog, AtAnEdge("AC"), Hex, 32, Digit),
    // Payment and shops.
    Row("Stripe key", Gitleaks, Anywhere("sk_live_"), Alnum, 16, Any),
    Row("Stripe key", Gitleaks, Anywhere("rk_live_"), Alnum, 16, Any),
    Row("Stripe key", Gitleaks, Anywhere("sk_test_"), Alnum, 16, Digit),
    Row("Stripe key", Gitleaks, Anywhere("rk_test_"), Alnum, 16, Digit),
    Row("Stripe secret", GitHub, Anywhere("whsec_"), Base64, 24, Digit),
    Row("Shopify token", Gitleaks, AtAnEdge("shpat_"), Hex, 32, Any),
    Row("Shopify token", Gitleaks, AtAnEdge("shpca_"), Hex, 32, Any),
    Row("Shopify token", Gitleaks, AtAnEdge("shppa_"), Hex, 32, Any),
    Row("Shopify token", Gitleaks, AtAnEdge("shpss_"), Hex, 32, Any),
    Row("Square token", Gitleaks, AtAnEdge("sq0atp-"), Word, 22, Any),
    Row("Square token", Gitleaks, AtAnEdge("sq0csp-"), Word, 32, Any),
    Row("PayPal token", Trufflehog, Anywhere("access_token$production$"), Password, 32, Any),
    Row("Razorpay key", Trufflehog, AtAnEdge("rzp_live_"), Alnum, 14, Any),
    Row("Flutterwave key", Gitleaks, AtAnEdge("FLWSECK"), Word, 20, Digit),
    // Work and watching.
    Row("Airtable token", Gitleaks, AtAnEdge("pat"), Dotted, 70, Mixed),
    Row("HubSpot token", GitHub, AtAnEdge("pat-na1-"), Word, 32, Digit),
    Row("HubSpot token", GitHub, AtAnEdge("pat-eu1-"), Word, 32, Digit),
    Row("Linear key", Gitleaks, AtAnEdge("lin_api_"), Alnum, 32, Any),
    Row("Linear key", GitHub, AtAnEdge("lin_oauth_"), Alnum, 32, Any),
    Row("Notion token", Gitleaks, AtAnEdge("ntn_"), Alnum, 40, Any),
    Row("Notion token", GitHub, AtAnEdge("secret_"), Alnum, 40, Mixed),
    Row("Figma token", GitHub, AtAnEdge("figd_"), Word, 36, Any),
    Row("Postman key", Gitleaks, AtAnEdge("PMAK-"), Word, 50, Any),
    Row("Sentry token", Gitleaks, AtAnEdge("sntrys_"), Base64, 40, Any),
    Row("Sentry token", Gitleaks, AtAnEdge("sntryu_"), Hex, 40, Any),
    Row("New Relic key", Gitleaks, AtAnEdge("NRAK-"), Upper, 24, Any),
    Row("Grafana token", Gitleaks, AtAnEdge("glsa_"), Word, 32, Any),
    Row("Grafana token", Gitleaks, AtAnEdge("glc_"), Base64, 32, Any),
    Row("Dynatrace token", Gitleaks, AtAnEdge("dt0c01."), Dotted, 60, Any),
    Row("PostHog key", GitHub, AtAnEdge("phx_"), Word, 32, Any),
    Row("SonarQube token", Gitleaks, AtAnEdge("squ_"), Hex, 32, Any),
    Row("SonarQube token", Gitleaks, AtAnEdge("sqp_"), Hex, 32, Any),
    Row("Buildkite token", GitHub, AtAnEdge("bkua_"), Hex, 32, Any),
    Row("CircleCI token", GitHub, AtAnEdge("CCIPAT_"), Word, 32, Any),
    Row("Contentful token", GitHub, AtAnEdge("CFPAT-"), Word, 32, Any),
    Row("Typeform token", Gitleaks, AtAnEdge("tfp_"), Dotted, 40, Any),
    Row("Facebook token", Gitleaks, AtAnEdge("EAA"), Alnum, 80, Mixed),
    Row("age key", Gitleaks, Anywhere("AGE-SECRET-KEY-1"), Upper, 40, Any),
    Row("1Password token", Gitleaks, AtAnEdge("ops_eyJ"), Base64, 100, Any),
    // By the name before them.
    Row("bearer token", DetectSecrets, Named("bearer"), Token, 16, Digit),
    Row("authorization", Gitleaks, Named("authorization"), Token, 8, Digit),
    Row("GitLab token", Vendor, Named("private-token"), Token, 16, Digit),
    Row("API key", Gitleaks, Named("x-api-key"), Token, 16, Digit),
    Row("API key", Gitleaks, Assigned("api_key"), Word, 16, Digit),
    Row("API key", Gitleaks, Assigned("api-key"), Word, 16, Digit),
    Row("API key", Gitleaks, Assigned("apikey"), Word, 16, Digit),
    Row("API key", Vendor, Assigned("subscription-key"), Word, 16, Digit),
    Row("API key", DetectSecrets, Assigned("access_key"), Base64, 16, Digit),
    Row("API key", DetectSecrets, Assigned("service_key"), Word, 16, Digit),
    Row("token", Gitleaks, Assigned("access_token"), Token, 16, Digit),
    Row("token", Gitleaks, Assigned("accesstoken"), Token, 16, Digit),
    Row("token", Gitleaks, Assigned("auth_token"), Token, 16, Digit),
    Row("token", Gitleaks, Assigned("auth-token"), Token, 16, Digit),
    Row("token", Gitleaks, Assigned("authtoken"), Token, 16, Digit),
    Row("token", Gitleaks, Assigned("refresh_token"), Token, 16, Digit),
    Row("token", Gitleaks, Assigned("refreshtoken"), Token, 16, Digit),
    Row("token", Gitleaks, Assigned("api_token"), Token, 16, Digit),
    Row("token", Gitleaks, Assigned("apitoken"), Token, 16, Digit),
    Row("token", Gitleaks, Assigned("bot_token"), Token, 16, Digit),
    Row("token", Gitleaks, Assigned("oauth_token"), Token, 16, Digit),
    Row("token", Vendor, Assigned("vault-token"), Token, 16, Digit),
    Row("token", Gitleaks, After("?token="), Token, 16, Digit),
    Row("token", Gitleaks, After("&token="), Token, 16, Digit),
    Row("token", DetectSecrets, After("_TOKEN="), Token, 16, Digit),
    Row("secret", Gitleaks, Assigned("client_secret"), Token, 16, Digit),
    Row("secret", Gitleaks, Assigned("client-secret"), Token, 16, Digit),
    Row("secret", Gitleaks, Assigned("clientsecret"), Token, 16, Digit),
    Row("secret", Gitleaks, Assigned("secret_key"), Token, 16, Digit),
    Row("secret", Gitleaks, Assigned("secretkey"), Token, 16, Digit),
    Row("secret", Gitleaks, Assigned("app_secret"), Token, 16, Digit),
    Row("secret", DetectSecrets, Assigned("signing_secret"), Token, 16, Digit),
    Row("secret", DetectSecrets, Assigned("webhook_secret"), Token, 16, Digit),
    Row("secret", DetectSecrets, After("_SECRET="), Token, 16, Digit),
    Row("secret", DetectSecrets, After("_KEY="), Token, 16, Mixed),
    Row("password", DetectSecrets, After("PASSWORD="), Password, 6, Set),
    Row("password", DetectSecrets, After("PASSWD="), Password, 6, Set),
    Row("password", DetectSecrets, After("_PASS="), Password, 6, Set),
    Row("password", DetectSecrets, After("_PWD="), Password, 6, Secret),
    Row("password", DetectSecrets, Assigned("password"), Password, 6, Secret),
    Row("password", DetectSecrets, Assigned("passwd"), Password, 6, Secret),
    Row("password", DetectSecrets, Assigned("passphrase"), Password, 6, Secret),
];

/// How keys begin, if that is long enough to be a sign alone.
#[cfg(any(test, feature = "_wire"))]
pub(super) fn prefixes() -> impl Iterator<Item = &'static str> {
    let says_something = |text: &str| {
        let begins = text.as_bytes()[0].is_ascii_alphanumeric();
        begins && (text.len() > 3 || text.len() == 3 && text.ends_with(['-', '_', '.']))
    };
    let prefixes = ROWS.iter().filter_map(move |row| match row.2 {
        Anywhere(text) | AtAnEdge(text) => Some(text).filter(|text| says_something(text)),
        _ => None,
    });
    prefixes.chain(["eyJ"])
}

/// The names that a key follows.
#[cfg(any(test, feature = "_wire"))]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().filter_map(|row| match row.2 {
        Named(text) | Assigned(text) => Some(text),
        _ => None,
    })
}
